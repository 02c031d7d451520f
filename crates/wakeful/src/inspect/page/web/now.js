// Screen "Now": the verdict, the findings, the workers, the largest groups.

import { h, keyed, setAttr, setText, show, svg } from './dom.js';
import { sparkline } from './chart.js';
import { count, growth, ms, percent, plural, standsOut, toMs } from './format.js';
import { findingCard, findingKey } from './finding.js';
import { follow, samples } from './history.js';
import { moveItems } from './keys.js';
import { duration, empty, facts, groupLink, ofRuntime, runtimeName, section, taskLink } from './parts.js';
import { link, note, parse } from './router.js';

const FIRST = 10;
const ICONS = {
  ok: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.7 4.9-4.4 5.2a.9.9 0 0 1-1.3 0L4.2 9.3l1.2-1.2 1.2 1.1 3.8-4.4Z',
  warning: 'M8 1 .6 14.4h14.8ZM7.2 6h1.6v4.4H7.2Zm0 5.4h1.6V13H7.2Z',
  stuck:
    'M5 1 1 5v6l4 4h6l4-4V5l-4-4Zm.3 3.2L8 6.9l2.7-2.7 1.1 1.1L9.1 8l2.7 2.7-1.1 1.1L8 9.1l-2.7 2.7-1.1-1.1L6.9 8 4.2 5.3Z',
};
const LEVELS = { ok: 'well', warning: 'findings', stuck: 'stuck' };

function verdictBand() {
  const path = svg('path', { 'fill-rule': 'evenodd' });
  const icon = svg('svg', { class: 'verdict-icon', viewBox: '0 0 16 16', role: 'img' }, path);
  const text = h('h1', { text: 'Waiting for the first data of the program …' });
  const numbers = facts();
  const node = h('div', { class: 'verdict', 'data-level': 'none' }, icon, text, numbers);
  node.update = (overview) => {
    const { verdict, runtimes } = overview;
    setAttr(node, 'data-level', verdict.level);
    setAttr(path, 'd', ICONS[verdict.level]);
    setAttr(icon, 'aria-label', LEVELS[verdict.level]);
    setText(text, verdict.text);
    const sum = (f) => runtimes.reduce((total, runtime) => total + (f(runtime) || 0), 0);
    const workers = runtimes.flatMap((runtime) => runtime.workers);
    const items = [
      ['tasks alive', count(sum((r) => r.alive))],
      ['started', count(sum((r) => r.started))],
      ['finished', count(sum((r) => r.finished))],
      ['runnable, queued', count(sum((r) => r.queued) + workers.reduce((n, w) => n + w.queued, 0))],
      ['timers', count(sum((r) => r.timers))],
      ['I/O sources', count(sum((r) => r.sources))],
      [
        'blocking threads',
        `${count(sum((r) => r.blocking.threads - r.blocking.idle))} of ${count(sum((r) => r.blocking.threads))} busy`,
      ],
    ];
    const waiting = sum((r) => r.blocking.queued);
    if (waiting) items.push(['closures queued', count(waiting)]);
    const spares = sum((r) => r.spares);
    if (spares) items.push(['spare threads', count(spares)]);
    numbers.update(items);
  };
  return node;
}

function workerRow() {
  const name = h('th', { scope: 'row' });
  const doing = h('span');
  const task = taskLink();
  const since = h('span', { class: 'quiet' });
  const meter = h('div', { class: 'meter-fill' });
  const share = h('span', { class: 'num' });
  const spark = sparkline('busy share over the last minute', 60, true);
  const queued = h('td', { class: 'r', 'data-label': 'queued' });
  const polls = h('td', { class: 'r opt' });
  const row = h(
    'tr',
    {},
    name,
    h('td', { class: 'doing' }, doing, ' ', task, since),
    h('td', { class: 'busy' }, h('div', { class: 'meter' }, meter), share),
    h('td', { class: 'history' }, spark),
    queued,
    polls,
  );
  row.update = ({ worker, runtime }) => {
    setText(name, `worker ${worker.index}`);
    setText(doing, worker.state === 'polling' ? 'polls' : worker.state);
    setAttr(row, 'data-state', worker.state.replace(' ', '-'));
    show(task, !!worker.task);
    if (worker.task) task.update(worker.task);
    setText(since, worker.state === 'not started' || worker.for_ms === null ? '' : ` for ${ms(worker.for_ms)}`);
    meter.style.width = `${Math.min(100, 100 * (worker.busy_share || 0))}%`;
    setText(share, percent(worker.busy_share));
    const past = samples(runtime.id)
      .slice(-60)
      .map((s) => s.busy?.[worker.index] ?? 0);
    spark.update(
      past,
      1,
      `busy share over the last minute: now ${percent(worker.busy_share)}, at most ${percent(Math.max(0, ...past))}`,
    );
    setText(queued, count(worker.queued));
    setText(polls, count(worker.polls));
  };
  return row;
}

function runtimeTable() {
  const caption = h('caption');
  const body = h('tbody');
  const node = h(
    'table',
    { class: 'list workers' },
    caption,
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        ['worker', 'now', 'busy', 'busy, last minute', 'queued', 'polls'].map((text, i) =>
          h('th', { scope: 'col', text, class: `${i > 3 ? 'r' : ''}${i === 5 ? ' opt' : ''}` }),
        ),
      ),
    ),
    body,
  );
  node.update = (runtime) => {
    setText(
      caption,
      `${runtimeName(runtime)}, ${runtime.flavor}, up ${ms(runtime.uptime_ms)}: ${plural(runtime.alive, 'task')}`,
    );
    keyed(
      body,
      runtime.workers.map((worker) => ({ worker, runtime })),
      (item) => item.worker.index,
      workerRow,
    );
  };
  return node;
}

function groupRow() {
  const where = groupLink('', 1);
  const owner = h('span', { class: 'quiet' });
  const alive = h('td', { class: 'r' });
  const trend = sparkline('tasks alive over the last minute');
  const grows = h('td', { class: 'r' });
  const poll = duration(null);
  const wait = duration(null);
  const pollCell = h('td', { class: 'r', 'data-label': 'poll p99' }, poll);
  const waitCell = h('td', { class: 'r', 'data-label': 'wait p99' }, wait);
  const mostly = h('span');
  const row = h(
    'tr',
    { 'data-item': '' },
    h('th', { scope: 'row' }, where, owner),
    alive,
    h('td', { class: 'history' }, trend),
    grows,
    pollCell,
    waitCell,
    h('td', { class: 'clip' }, mostly),
  );
  row.update = ({ group, polls, waits, overview }) => {
    where.update(group.spawned_at, group.runtime);
    setText(owner, ofRuntime(group.runtime, overview));
    setText(alive, count(group.alive));
    trend.update(group.history, null, `tasks alive over the last minute: now ${group.alive}`);
    setText(grows, growth(group.growth_per_min));
    const past = group.history;
    // Relative to itself: more than a tenth within the minute that is seen, and never fewer.
    const isGrowing =
      past.length > 10 && group.alive > past[0] * 1.1 + 5 && past.every((n, i) => !i || n >= past[i - 1]);
    setAttr(grows, 'data-mark', isGrowing ? 'grows' : null);
    setAttr(grows, 'title', isGrowing ? 'Grew by more than a tenth within the last minute, and never shrank' : null);
    poll.update(toMs(group.poll_p99_us));
    wait.update(group.wait_p99_ms);
    const isSlow = standsOut(group.poll_p99_us, polls);
    setAttr(pollCell, 'data-mark', isSlow ? 'high' : null);
    setAttr(pollCell, 'title', isSlow ? 'At least four times the median of these groups' : null);
    const isLong = standsOut(group.wait_p99_ms, waits);
    setAttr(waitCell, 'data-mark', isLong ? 'high' : null);
    setAttr(waitCell, 'title', isLong ? 'At least four times the median of these groups' : null);
    const most = [...group.waits].sort((a, b) => b.count - a.count)[0];
    setText(
      mostly,
      group.orphans
        ? plural(group.orphans, 'orphan')
        : most
          ? `${most.kind}: ${count(most.count)}`
          : group.running
            ? 'running'
            : '',
    );
    setAttr(mostly, 'title', group.waits.map((w) => `${w.kind}: ${w.count}, ${w.site_label} ${w.site}`).join('\n'));
  };
  return row;
}

export function open(root) {
  const verdict = verdictBand();
  const cards = h('div', { class: 'findings' });
  const more = h('button', { type: 'button' });
  const quiet = h('p', {
    class: 'all-clear',
    text: 'Nothing found. A deadlock, an orphan, a blocked worker or a spinning task would be named here, with its tasks and sites.',
  });
  const findings = section('Findings', quiet, cards, more);
  const tables = h('div');
  const workers = section('Workers', tables);
  const body = h('tbody');
  const heads = ['spawned at', 'tasks', 'tasks, last minute', 'growth', 'poll p99', 'wait p99', 'waits mostly for'];
  const table = h(
    'table',
    { class: 'list groups' },
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        heads.map((text, i) => h('th', { scope: 'col', text, class: [1, 3, 4, 5].includes(i) ? 'r' : null })),
      ),
    ),
    body,
  );
  const all = h('a', { href: link('tasks', { mode: 'groups' }) });
  const none = empty(
    'No tasks yet',
    'Tasks appear here grouped by the site that spawned them, as soon as the program spawns some.',
  );
  const groups = section('Largest groups by spawn site', none, table, h('p', { class: 'after' }, all));
  for (const part of [findings, workers, groups]) part.hidden = true;
  root.append(verdict, findings, workers, groups);

  let overview = null;
  let limit = FIRST;
  more.addEventListener('click', () => {
    limit += 50;
    draw();
  });
  const opened = new Set((parse(location.hash).params.get('open') || '').split('\n').filter(Boolean));
  const setOpen = (key, is) => {
    if (is === opened.has(key)) return;
    if (is) opened.add(key);
    else opened.delete(key);
    note({ open: [...opened].slice(-8).join('\n') });
  };
  const past = follow(() => draw());

  function draw() {
    if (!overview) return;
    verdict.update(overview);
    for (const part of [findings, workers, groups]) part.hidden = false;
    const found = overview.findings;
    findings.note(found.length ? plural(found.length, 'finding') + (found.length > 1 ? ', proven first' : '') : '');
    show(quiet, !found.length);
    keyed(cards, found.slice(0, limit), findingKey, () => findingCard((key) => opened.has(key), setOpen));
    show(more, found.length > limit);
    setText(more, `Show more (${count(found.length - limit)})`);
    if (!overview.runtimes.length) workers.note('No runtime is alive. Its workers will be shown here.');
    else workers.note('');
    keyed(tables, overview.runtimes, (runtime) => runtime.id, runtimeTable);
    const list = overview.groups;
    show(none, !list.length);
    show(table, list.length);
    groups.note(list.length ? `${count(list.length)} of ${count(overview.groups_total)}` : '');
    const polls = list.map((g) => g.poll_p99_us);
    const waits = list.map((g) => g.wait_p99_ms);
    keyed(
      body,
      list.map((group) => ({ group, polls, waits, overview })),
      ({ group }) => `${group.runtime} ${group.spawned_at}`,
      groupRow,
    );
    show(all, list.length);
    setText(
      all,
      overview.groups_total > list.length ? `All ${count(overview.groups_total)} groups` : 'Sort and search the groups',
    );
  }

  return {
    route() {},
    tick(data) {
      overview = data;
      past.tick();
      draw();
    },
    key: (event) => moveItems(root, event),
    close() {
      past.close();
    },
  };
}
