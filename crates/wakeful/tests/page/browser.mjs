// End-to-end tests of the live page, in Chromium.
//
//   npm ci
//   node browser.mjs --url URL [--many URL] [--blocked URL] [--runtimes URL] [--shots FOLDER] [--limits]
//
// --url      a program with two tasks, "first" and "second", in a deadlock over two mutexes; a task named
//            <script>alert(1)</script>; at least 20 tasks; a task that has spawned others; workers that poll
//            at least once a second
// --many     a program with 100,000 tasks
// --blocked  a program whose every worker is blocked: the page must show it
// --runtimes a program with a runtime of two workers and two more, "database" and "mailer", each with a task named after
//            it; with a task "victim", which the page may abort
// --axum     an axum program on the tokio shim, which waits for connections
// --shots    writes pictures of the six screens in both themes
// --deadlock the names of the two tasks, "first,second" unless given
//
// The URLs are those that the programs print, with their tokens. CHROMIUM names the browser if it is not at
// /usr/bin/chromium. A check fails also if the page logs an error, violates its policy or opens a dialog.
//
// Measured times are printed beside their limits. Only with --limits does a check fail because of a time, since other
// programs may use the machine: `bench/page browser` does that.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const text = { type: 'string' };
const { values: options } = parseArgs({
  options: {
    url: text,
    many: text,
    blocked: text,
    axum: text,
    runtimes: text,
    shots: text,
    deadlock: text,
    limits: { type: 'boolean' },
  },
});
if (!['url', 'many', 'blocked', 'axum', 'runtimes'].some((name) => options[name])) {
  console.error('usage: node browser.mjs --url URL [--many URL] [--blocked URL] [--runtimes URL] [--shots FOLDER] [--limits]');
  process.exit(2);
}
const [FIRST, SECOND] = (options.deadlock || 'first,second').split(',');
const SCRIPT = '<script>alert(1)</script>';
/** The longest time to the first screen, of most frames while scrolling (p50), and of an answer, in ms. */
const LIMITS = { firstScreen: 1000, frame: 34, answer: 100 };
const ATTEMPTS = 4;
const SCREENS = ['now', 'tasks', 'task', 'resources', 'timeline', 'metrics'];

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    // A name of another site that resolves to this machine: DNS rebinding.
    '--host-resolver-rules=MAP rebind.example 127.0.0.1, MAP localhost6 127.0.0.1',
  ],
});
let troubles = [];
let failed = 0;

/** Opens the page as a reader would: by the printed URL, in a browser of its own. */
async function visit(url, hash = '', settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...settings });
  context.setDefaultTimeout(60000);
  const page = await context.newPage();
  page.on('pageerror', (error) => troubles.push(`error: ${error.stack}`));
  page.on('dialog', (dialog) => {
    troubles.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('console', (message) => {
    if (message.type() === 'error' && !page.mayFail) troubles.push(`console: ${message.text()}`);
  });
  await page.goto(url);
  if (hash)
    await page.evaluate((hash) => {
      location.hash = hash;
    }, hash);
  return page;
}

/** Runs one check and prints its result. */
async function check(name, run) {
  troubles = [];
  const began = performance.now();
  let page = null;
  try {
    await run((...visited) => visit(...visited).then((opened) => (page = opened)));
    assert.deepEqual(troubles, [], 'the page reported trouble');
    console.log(`ok      ${name} (${Math.round(performance.now() - began)} ms)`);
  } catch (error) {
    failed++;
    console.log(
      `FAILED  ${name}\n${error.stack}${page ? `\n  at ${page.url().replace(/token=[^&#]*/, 'token=…')}` : ''}\n${troubles.join('\n')}`,
    );
  } finally {
    await Promise.all(browser.contexts().map((context) => context.close()));
  }
}

/** Prints the best of the measured times. With --limits, a time over the limit fails the check. */
function measured(what, times, limit) {
  const best = Math.min(...times);
  console.log(`        ${what}: ${best.toFixed(1)} ms at best of ${times.length}, limit ${limit} ms`);
  if (options.limits) assert.ok(best < limit, `${what} took ${best} ms`);
}

const rows = (page) => page.locator('.vt-row:not([hidden]):not(.is-missing)');
const cells = (page, name) => page.locator(`.vt-row:not([hidden]):not(.is-missing) > .c-${name}`);
const hashOf = (page) => new URL(page.url()).hash;
const loaded = (page) => rows(page).first().waitFor();
const deadlockCard = (page) =>
  page
    .locator('.finding', { has: page.locator('.kind', { hasText: /^deadlock$/ }) })
    .filter({ has: page.getByRole('link', { name: `"${FIRST}"` }) })
    .first();
/** Waits until the whole table matches, since it is filled by requests. */
const settled = (page, predicate, argument) => page.waitForFunction(predicate, argument);

async function mainChecks(url) {
  await check('the first screen names the deadlock, its tasks and its locks', async (open) => {
    const page = await open(url);
    const card = deadlockCard(page);
    await card.waitFor();
    assert.notEqual(await page.locator('.verdict').getAttribute('data-level'), 'ok');
    assert.match(await card.locator('.certainty').innerText(), /^(proven|suspected)$/);
    for (const name of [FIRST, SECOND])
      assert.ok(await card.getByRole('link', { name: `"${name}"` }).count(), `no link to ${name}`);
    assert.equal(await card.locator('.resource-link').count(), 2);
    await card.locator('summary').click();
    assert.match(await card.locator('pre').innerText(), /fix:/);
    // The browser reports after the click that the element has opened.
    await settled(page, () => location.hash.includes('open='));
    await page.reload();
    await deadlockCard(page).locator('pre').waitFor();
  });

  await check('links lead from the deadlock to a task, its holder and the lock; back returns', async (open) => {
    const page = await open(url);
    await deadlockCard(page)
      .getByRole('link', { name: `"${FIRST}"` })
      .first()
      .click();
    await page.locator('h1', { hasText: `"${FIRST}"` }).waitFor();
    const held = page.locator('.wait .holder', { hasText: 'held by' });
    assert.match(await held.first().innerText(), new RegExp(`held by .*"${SECOND}".*, acquired at .+:\\d+`));
    // The cycle is drawn: two tasks, two locks and four edges.
    await page.locator('.graph .node.in-cycle').nth(3).waitFor({ state: 'attached' });
    await page.locator('.graph .edge.in-cycle').nth(3).waitFor({ state: 'attached' });
    await held.getByRole('link').first().click();
    await page.locator('h1', { hasText: `"${SECOND}"` }).waitFor();
    await page.goBack();
    await page.locator('h1', { hasText: `"${FIRST}"` }).waitFor();
    await page.goBack();
    await deadlockCard(page).locator('.resource-link').first().click();
    await page.locator('.panel').waitFor();
    assert.match(await page.locator('.panel .holder').first().innerText(), /held by task \d+/);
    assert.match(await page.locator('.panel').innerText(), /waiting, for up to/);
  });

  await check('search filters, stays in the URL and survives a reload', async (open) => {
    const page = await open(url, '#/tasks');
    await loaded(page);
    await page.keyboard.press('/');
    await page.keyboard.type(FIRST);
    const isFiltered = (name) =>
      [...document.querySelectorAll('.vt-row:not([hidden]) > .c-task')].every((cell) =>
        cell.textContent.includes(name),
      ) && location.hash.includes(`q=${name}`);
    await settled(page, isFiltered, FIRST);
    await page.reload();
    await loaded(page);
    await settled(page, isFiltered, FIRST);
    assert.equal(await page.locator('input[type=search]').inputValue(), FIRST);
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.locator('input[type=search]').fill('no such task at all');
    await page.getByText('No task matches').waitFor();
  });

  await check('sort, back button and a shared URL', async (open) => {
    const page = await open(url, '#/tasks');
    await loaded(page);
    const polls = page.getByRole('columnheader', { name: 'polls' });
    const isSorted = (sign) => {
      const values = [...document.querySelectorAll('.vt-row:not([hidden]):not(.is-missing)')]
        .sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))
        .map((row) => Number(row.querySelector('.c-polls').textContent.replaceAll(',', '')));
      return values.length > 2 && values.every((value, i) => !i || sign * (value - values[i - 1]) >= 0);
    };
    await polls.getByRole('button').click();
    await settled(page, isSorted, -1);
    assert.equal(await polls.getAttribute('aria-sort'), 'descending');
    await polls.getByRole('button').click();
    await settled(page, isSorted, 1);
    assert.equal(await polls.getAttribute('aria-sort'), 'ascending');
    await page.goBack();
    await settled(page, isSorted, -1);
    assert.equal(await polls.getAttribute('aria-sort'), 'descending');

    const other = await visit(url, hashOf(page));
    await loaded(other);
    await settled(other, isSorted, -1);
    assert.equal(await other.getByRole('columnheader', { name: 'polls' }).getAttribute('aria-sort'), 'descending');
  });

  await check('filters by state, kind of wait and spawn site', async (open) => {
    const page = await open(url, '#/tasks');
    await loaded(page);
    await page.getByLabel('state').selectOption('waiting');
    await settled(page, () => location.hash.includes('state=waiting'));
    await page.getByLabel('waits for').selectOption('Mutex::lock');
    await settled(page, () => {
      const waits = [...document.querySelectorAll('.vt-row:not([hidden]):not(.is-missing) > .c-wait')];
      return waits.length > 0 && waits.every((cell) => cell.textContent.startsWith('a lock'));
    });
    await page.getByRole('button', { name: 'Groups' }).click();
    await page.locator('.cols-groups .vt-row:not([hidden]) a').first().waitFor();
    const site = (await cells(page, 'site').first().locator('a').getAttribute('title')).replace(
      'Tasks spawned at ',
      '',
    );
    await cells(page, 'site').first().locator('a').click();
    await page.locator('.cols-tasks').waitFor();
    await loaded(page);
    await settled(
      page,
      (site) =>
        [...document.querySelectorAll('.vt-row:not([hidden]):not(.is-missing) > .c-spawned')].every(
          (cell) => cell.firstElementChild.title === site,
        ),
      site,
    );
  });

  await check('the tree opens with the keyboard and stays open', async (open) => {
    const page = await open(url, '#/tasks?mode=tree');
    await page.locator('.cols-tree .vt-row:not([hidden])').nth(1).waitFor();
    const closed = page.locator('.twist:not(:disabled)', { hasText: '▸' });
    await closed.first().waitFor();
    const before = await rows(page).count();
    const index =
      Number(await closed.first().locator('xpath=ancestor::*[@role="row"]').getAttribute('aria-rowindex')) - 2;
    await page.locator('.vt').focus();
    await page.keyboard.press('Home');
    for (let i = 0; i < index; i++) await page.keyboard.press('j');
    await page.keyboard.press('ArrowRight');
    await settled(
      page,
      (before) =>
        document.querySelectorAll('.vt-row:not([hidden]):not(.is-missing)').length > before ||
        document.querySelector('.vt').scrollHeight > 2000,
      before,
    );
    assert.match(decodeURIComponent(hashOf(page)), /open=.*\d+\.[tb]\d+/);
    await page.reload();
    await page.locator('.twist', { hasText: '▾' }).nth(1).waitFor();
  });

  await check('keys move, open, switch screens and show help', async (open) => {
    const page = await open(url, '#/tasks');
    await loaded(page);
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    const chosen = await page.locator('.vt-row[aria-selected=true] .c-task').innerText();
    await page.keyboard.press('Enter');
    await page.locator('h1', { hasText: chosen }).waitFor();
    await page.goBack();
    await loaded(page);
    await page.locator('.vt-row[aria-selected=true]', { hasText: chosen }).waitFor();
    for (const [key, screen] of [
      ['1', 'now'],
      ['4', 'resources'],
      ['6', 'metrics'],
      ['5', 'timeline'],
      ['3', 'task'],
      ['2', 'tasks'],
    ]) {
      await page.keyboard.press(key);
      await page.locator(`main.screen-${screen}`).waitFor();
    }
    await page.keyboard.press('g');
    await page.keyboard.press('n');
    await page.locator('main.screen-now').waitFor();
    await page.keyboard.press('?');
    await page.locator('dialog#keys').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('dialog#keys').waitFor({ state: 'hidden' });
  });

  await check('a task named <script> stays text on every screen', async (open) => {
    const page = await open(url, `#/tasks?q=${encodeURIComponent(SCRIPT)}`);
    const scripts = await page.evaluate(() => document.scripts.length);
    await cells(page, 'task').filter({ hasText: SCRIPT }).first().waitFor();
    await cells(page, 'task').filter({ hasText: SCRIPT }).first().getByRole('link').click();
    await page.locator('h1', { hasText: SCRIPT }).waitFor();
    assert.equal(await page.evaluate(() => document.scripts.length), scripts);
  });

  await check('updates keep focus, selection and scroll position', async (open) => {
    const page = await open(url);
    const link = page.locator('.groups a').last();
    await link.focus();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    const [top, href] = await page.evaluate(() => [scrollY, document.activeElement.getAttribute('href')]);
    for (let i = 0; i < 2; i++) {
      const up = await page.locator('.program-up').innerText();
      await settled(page, (up) => document.querySelector('.program-up').textContent !== up, up);
    }
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('href')), href);
    assert.ok(Math.abs((await page.evaluate(() => scrollY)) - top) < 80, 'the page has jumped');
  });

  await check('pause, and a lost connection that comes back', async (open) => {
    const page = await open(url);
    await page.locator('#live[data-state=live]').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('#banner', { hasText: 'Paused' }).waitFor();
    page.mayFail = true;
    await page.route('**/api/v1/**', (route) => route.abort());
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.locator('#banner', { hasText: 'connection to the program is lost' }).waitFor();
    await page.unroute('**/api/v1/**');
    await page.locator('#live[data-state=live]').waitFor();
    await page.locator('#banner').waitFor({ state: 'hidden' });
  });

  await check('the timeline records and shows polls', async (open) => {
    const page = await open(url, '#/timeline');
    await page.getByLabel('Seconds to record').selectOption('1');
    await page.getByRole('button', { name: 'Record' }).click();
    await page.getByText(/events? in /).waitFor();
    await page.locator('.legend tbody tr').first().waitFor();
    // Polls are drawn in the colours of the legend.
    await settled(page, () => {
      const canvas = document.querySelector('canvas');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Set();
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] === 255) colours.add(`rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`);
      return [...document.querySelectorAll('.swatch')].some((swatch) =>
        colours.has(getComputedStyle(swatch).backgroundColor),
      );
    });
    await page.keyboard.press('+');
    await settled(page, () => /from=\d+&to=\d+/.test(location.hash));
    const hash = hashOf(page);
    await page.locator('canvas').hover();
    await page.mouse.wheel(0, -300);
    await settled(page, (hash) => location.hash !== hash && /to=\d+/.test(location.hash), hash);
    await page.keyboard.press('.');
    await page.locator('.detail', { hasText: 'Poll of' }).waitFor();
    await page.keyboard.press('0');
    await settled(page, (hash) => location.hash !== hash, hash);
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download for Perfetto' }).click(),
    ]);
    assert.match(file.suggestedFilename(), /\.json$/);
  });

  await check('metrics show histograms and history', async (open) => {
    const page = await open(url, '#/metrics?span=300');
    await page.locator('.bars .bar').first().waitFor();
    await page.locator('.plot').nth(7).waitFor({ state: 'attached' });
    await settled(page, () =>
      [...document.querySelectorAll('.plot .line')].some((line) => line.getAttribute('d').split('L').length > 2),
    );
    await page.locator('.chart-now', { hasText: '%' }).first().waitFor();
  });

  await check('every screen fits into 420 and into 800 pixels', async (open) => {
    for (const width of [420, 800]) {
      for (const screen of SCREENS) {
        const page = await open(url, await hashFor(screen, url), { viewport: { width, height: 860 } });
        await shown(page, screen);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${screen} is ${over} px too wide for ${width} px`);
        await page.context().close();
      }
    }
  });
}

/** The route of a screen; a task needs the number of the first task of the deadlock. */
async function hashFor(screen, url) {
  if (screen !== 'task') return `#/${screen}`;
  const page = await visit(url, '#/now');
  const href = await deadlockCard(page)
    .getByRole('link', { name: `"${FIRST}"` })
    .first()
    .getAttribute('href');
  await page.context().close();
  return href;
}

/** Waits until a screen has its data. */
const shown = (page, screen) =>
  page
    .locator(
      {
        now: '.workers tbody tr, .empty',
        tasks: '.vt-row:not([hidden]):not(.is-missing)',
        task: '.graph svg',
        resources: '.vt-row:not([hidden]):not(.is-missing)',
        timeline: 'canvas, .empty',
        metrics: '.bars .bar',
      }[screen],
    )
    .first()
    .waitFor({ state: 'attached' });

async function screenshots(url, folder) {
  mkdirSync(folder, { recursive: true });
  await check('pictures of the six screens in both themes', async (open) => {
    const first = await open(url, '#/timeline');
    await first.getByLabel('Seconds to record').selectOption('1');
    await first.getByRole('button', { name: 'Record' }).click();
    await first.getByText(/events? in /).waitFor();
    for (const theme of ['light', 'dark']) {
      for (const screen of SCREENS) {
        const page = await open(url, await hashFor(screen, url), {
          colorScheme: theme,
          viewport: { width: 1280, height: 860 },
        });
        await shown(page, screen);
        if (screen === 'timeline') await page.locator('.legend tbody tr').first().waitFor();
        assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
        await page.screenshot({ path: `${folder}/${screen}-${theme}.png` });
        await page.context().close();
      }
    }
  });
}

/** Scrolls the table for 200 frames, now and then far, and returns the times between frames. Runs in the page. */
function scroll() {
  return new Promise((done) => {
    const table = document.querySelector('.vt');
    table.scrollTop = 0;
    const times = [];
    let last = null;
    const step = (now) => {
      if (last !== null) times.push(now - last);
      last = now;
      table.scrollTop += times.length % 100 < 90 ? 160 : 40000;
      if (times.length < 200) requestAnimationFrame(step);
      else done(times);
    };
    requestAnimationFrame(step);
  });
}

async function manyChecks(url) {
  await check('100,000 tasks: the first screen', async (open) => {
    const times = [];
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const page = await open(url);
      // Since the browser followed the printed URL.
      const complete = await page.waitForFunction(
        () => document.querySelector('.groups tbody tr') && performance.now(),
      );
      times.push(await complete.jsonValue());
      const alive = Number((await page.locator('[data-screen=tasks] .tab-count').innerText()).replaceAll(',', ''));
      assert.ok(alive >= 100_000);
      await page.context().close();
    }
    measured('the first screen', times, LIMITS.firstScreen);
  });

  await check('100,000 tasks: scrolling', async (open) => {
    const page = await open(url, '#/tasks');
    await loaded(page);
    const slow = [];
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const times = await page.evaluate(scroll);
      times.sort((a, b) => a - b);
      const at = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))].toFixed(1);
      console.log(
        `        frame times over ${times.length} frames: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`,
      );
      slow.push(Number(at(0.5)));
    }
    assert.ok((await page.locator('.vt-row').count()) < 120, 'only rows that are seen exist');
    measured('p50 of the frames', slow, LIMITS.frame);
    await page.keyboard.press('End');
    await settled(page, () =>
      [...document.querySelectorAll('.vt-row[aria-selected=true]')].some(
        (row) => row.getAttribute('aria-rowindex') > 100000 && !row.classList.contains('is-missing'),
      ),
    );
  });

  await check('100,000 tasks: search', async (open) => {
    const page = await open(url, '#/tasks');
    await loaded(page);
    const name = await cells(page, 'task').nth(3).innerText();
    const began = performance.now();
    await page.locator('input[type=search]').fill(name);
    await settled(
      page,
      (name) => {
        const tasks = [...document.querySelectorAll('.vt-row:not([hidden]) > .c-task')];
        return (
          tasks.length > 0 && location.hash.includes('q=') && tasks.every((cell) => cell.textContent.includes(name))
        );
      },
      name,
    );
    console.log(`        search answered after ${Math.round(performance.now() - began)} ms`);
  });
}

async function blockedChecks(url) {
  await check('a program whose every worker is blocked is shown', async (open) => {
    const page = await open(url);
    await page.locator('.workers tbody tr').first().waitFor();
    await page.locator('.finding .kind', { hasText: 'blocked' }).first().waitFor();
    const times = await page.evaluate(async (attempts) => {
      const times = [];
      for (let i = 0; i < attempts; i++) {
        // Longer than a snapshot is shared.
        await new Promise((done) => setTimeout(done, 450));
        const began = performance.now();
        await (await fetch('/api/v1/overview')).json();
        times.push(performance.now() - began);
      }
      return times;
    }, ATTEMPTS);
    measured('the answer of a blocked program', times, LIMITS.answer);
  });
}

async function runtimesChecks(url) {
  await check('several runtimes are told apart', async (open) => {
    const page = await open(url);
    const tables = page.locator('table.workers');
    await tables.nth(2).waitFor();
    for (const name of ['database', 'mailer'])
      assert.equal(await page.locator('table.workers caption', { hasText: `"${name}", current-thread` }).count(), 1, name);
    assert.equal(await tables.nth(0).locator('tbody tr').count(), 2);
    assert.equal(await tables.nth(1).locator('tbody tr').count(), 1);

    await page.evaluate(() => (location.hash = '#/tasks'));
    await loaded(page);
    await page.getByLabel('runtime').selectOption({ label: 'runtime 2 "database"' });
    await settled(page, () => {
      const names = [...document.querySelectorAll('.vt-row:not([hidden]):not(.is-missing) > .c-task')];
      const has = (text) => names.some((name) => name.textContent.includes(text));
      return has('database writer') && !has('accept') && !has('mailer');
    });
    assert.match(hashOf(page), /runtime=2/);
    await page.evaluate(() => (location.hash = '#/tasks?mode=tree'));
    await page.locator('.cols-tree .vt-row', { hasText: 'runtime 3 "mailer"' }).waitFor();
    await page.evaluate(() => (location.hash = '#/metrics'));
    for (const title of ['Runtime 1, multi-thread', 'Runtime 2 "database", current-thread'])
      await page.locator('h2', { hasText: title }).waitFor();

    await page.evaluate(() => (location.hash = '#/timeline'));
    await page.getByLabel('Seconds to record').selectOption('1');
    await page.getByRole('button', { name: 'Record' }).click();
    await page.getByText(/events? in /).waitFor();
    await page.locator('canvas').focus();
    await page.keyboard.press('.');
    await page.locator('.detail', { hasText: /on worker \d of runtime \d/ }).waitFor();
  });

  await check('pages of other sites can neither read nor act', async (open) => {
    const page = await open(url);
    const { origin, port } = new URL(page.url());
    const [task] = (await (await page.request.get(`${origin}/api/v1/tasks?q=victim`)).json()).rows;
    page.mayFail = true;
    // A name that resolves to this machine, with the right cookie.
    for (const name of ['rebind.example', 'localhost6']) {
      const answer = await page.goto(`http://${name}:${port}/`);
      assert.equal(answer.status(), 421, name);
    }
    // Another site, to which the browser sends no cookie, and which may not read the answer.
    await page.route('http://a.example/', (route) => route.fulfill({ contentType: 'text/html', body: '<p>other' }));
    await page.goto('http://a.example/');
    const outcomes = await page.evaluate(
      async ([origin, runtime, id]) => {
        const attempts = [
          ['api/v1/overview', {}],
          ['api/v1/abort', { method: 'POST', body: JSON.stringify({ runtime, id }) }],
          ['api/v1/abort', { method: 'POST', headers: { 'X-Wakeful-Action': '0' }, body: '{}' }],
        ];
        const outcomes = [];
        for (const [path, settings] of attempts) {
          const request = fetch(`${origin}/${path}`, { credentials: 'include', ...settings });
          outcomes.push(await request.then(() => 'read', () => 'refused'));
        }
        return outcomes;
      },
      [origin, task.runtime, task.id],
    );
    assert.deepEqual(outcomes, ['refused', 'refused', 'refused']);
    const still = await visit(url, `#/task/${task.runtime}/t${task.id}`);
    await still.locator('h1', { hasText: 'victim' }).waitFor();
    assert.equal(await still.getByText('has ended').count(), 0);
  });

  await check('a task is aborted from the page, after a question', async (open) => {
    const page = await open(url, '#/tasks?q=victim');
    await cells(page, 'task').first().getByRole('link').click();
    await page.locator('h1', { hasText: 'victim' }).waitFor();
    await page.getByRole('button', { name: 'Abort task …' }).click();
    await page.getByRole('button', { name: 'Keep it' }).click();
    await page.getByRole('button', { name: 'Abort task …' }).click();
    await page.getByRole('button', { name: 'Abort now' }).click();
    await page.getByText('it was aborted').waitFor();
    await page.evaluate(() => (location.hash = '#/tasks?q=victim'));
    await page.getByText('No task matches').waitFor();
  });
}

/** A program that knows nothing of wakeful: its first screen, and that its server waits for connections. */
async function axumChecks(url) {
  await check('an unmodified axum program is shown', async (open) => {
    const page = await open(url);
    await page.getByText('All well').first().waitFor();
    const waits = await open(url, '#/resources');
    // Not the option of the filter, which is hidden.
    await waits.locator('[role=row], tr', { hasText: 'accept' }).first().waitFor();
  });
}

// First, because a planted block may end.
if (options.blocked) await blockedChecks(options.blocked);
if (options.axum) await axumChecks(options.axum);
if (options.runtimes) await runtimesChecks(options.runtimes);
if (options.url) await mainChecks(options.url);
if (options.url && options.shots) await screenshots(options.url, options.shots);
if (options.many) await manyChecks(options.many);
await browser.close();
console.log(failed ? `${failed} checks failed` : 'all checks passed');
process.exit(failed ? 1 : 0);
