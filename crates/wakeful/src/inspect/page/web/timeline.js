// Screen "Timeline": records some seconds on a click, and shows them with zoom, pan and details.

import { get, post, single } from './api.js';
import { createPainter, labelOf } from './canvas.js';
import { h, keyed, setAttr, setText, show } from './dom.js';
import { count, percent, plural, shortSite, us } from './format.js';
import { empty, siteCode, taskLink } from './parts.js';
import { note } from './router.js';
import { build, lowerBound } from './trace.js';

/** The shortest view, in µs. */
const SHORTEST = 2;
const SIGNS =
  'Where polls are too many to be drawn apart, the height is the share of time in polls. Zoom in with the wheel to see each poll, with its letter, and ▾ spawns, ● wake-ups, ◆ steals, ! reports below. Thin lines are sleep; arrows lead from a wake-up to the poll that follows it.';

/** The label of a row. */
const rowName = (model, row) =>
  model.rows[row].name + (model.hasRuntimes ? ` of runtime ${model.rows[row].runtime}` : '');

/** The text about the wake-up before a poll. */
function wokenText(model, slice) {
  const wake = slice.wokenBy;
  return wake ? `woken ${us(slice.at - wake.at)} before, by ${rowName(model, wake.row)}` : '';
}

/** The line that describes the chosen poll. */
function detailLine() {
  const what = h('span', { class: 'label-strong' });
  const who = taskLink();
  const where = h('span');
  const spawned = siteCode('');
  const times = h('span');
  const woken = h('span', { class: 'quiet' });
  const node = h('div', { class: 'detail', role: 'status' }, what, ' ', who, where, spawned, times, woken);
  node.update = (model, slice) => {
    const isPoll = slice?.kind === 'poll';
    show(who, isPoll && slice.task !== null);
    show(spawned, isPoll);
    if (!slice) {
      setText(what, 'Choose a poll');
      setText(where, 'with a click, or with the keys “,” and “.”, to read about it here.');
      setText(times, '');
      setText(woken, '');
      return;
    }
    const row = model.rows[slice.row];
    setText(what, isPoll ? (slice.task === null ? 'Poll of a block_on' : 'Poll of') : 'Sleep');
    if (isPoll && slice.task !== null) who.update({ runtime: row.runtime, id: slice.task, ...model.tasks[slice.task] });
    setText(where, isPoll ? ', spawned at ' : '');
    spawned.update(slice.site?.name);
    setText(times, `: ${us(slice.took)} on ${rowName(model, slice.row)}, at ${us(slice.at)}.`);
    const text = wokenText(model, slice);
    setText(woken, text ? ` It was ${text}.` : '');
  };
  return node;
}

/** The table of spawn sites: colour and letter, polls, time, the longest poll. */
function legendTable(toggle, select) {
  const body = h('tbody');
  const heads = ['', 'polls of tasks spawned at', 'polls', 'time', 'share', 'longest poll'];
  const node = h(
    'table',
    { class: 'list legend' },
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        heads.map((text, i) => h('th', { scope: 'col', text, class: i > 1 ? 'r' : null })),
      ),
    ),
    body,
  );
  const makeRow = () => {
    let shown = null;
    const mark = h('span', { class: 'swatch' });
    const name = h('button', { type: 'button', class: 'plain-button', onclick: () => toggle(shown) });
    const longest = h('button', {
      type: 'button',
      class: 'plain-button',
      title: 'Show this poll',
      onclick: () => select(shown.longest),
    });
    const cells = ['polls', 'time', 'share', 'longest'].map((label) => h('td', { class: 'r', 'data-label': label }));
    cells[3].append(longest);
    const row = h('tr', {}, h('td', {}, mark), h('th', { scope: 'row' }, name), cells);
    row.update = ({ site, share, isLit }) => {
      shown = site;
      setText(mark, site.letter || '·');
      mark.style.background = `var(--series-${site.series})`;
      setText(name, shortSite(site.name));
      setAttr(name, 'title', `${site.name}: show these polls alone`);
      setAttr(name, 'aria-pressed', isLit ? 'true' : 'false');
      setText(cells[0], count(site.polls));
      setText(cells[1], us(site.total));
      setText(cells[2], percent(share));
      setText(longest, us(site.longest.took));
    };
    return row;
  };
  node.update = (model, lit) => {
    const total = model.sites.reduce((sum, site) => sum + site.total, 0) || 1;
    const rows = model.sites
      .slice(0, 30)
      .map((site) => ({ site, share: site.total / total, isLit: site === lit }));
    keyed(body, rows, ({ site }) => site.name, makeRow);
  };
  return node;
}

/** Zoom with the wheel or two fingers, pan by dragging, choose with a click, point with the pointer. */
function addGestures(canvas, painter, { isReady, zoom, pan, panTo, viewStart, choose, point }) {
  const pointers = new Map();
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, start: event.clientX, from: viewStart() });
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!isReady()) return;
    const drag = pointers.get(event.pointerId);
    if (!drag) {
      point(painter.sliceAt(event), event);
    } else if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const before = Math.abs(a.x - b.x);
      drag.x = event.clientX;
      const after = Math.abs(a.x - b.x);
      if (before > 10 && after > 10) zoom(before / after, painter.shareAt({ clientX: (a.x + b.x) / 2 }));
    } else {
      drag.x = event.clientX;
      panTo(drag.from, (drag.start - event.clientX) / painter.plotWidth());
      canvas.classList.add('is-dragged');
    }
  });
  const lift = (event) => {
    const drag = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    canvas.classList.remove('is-dragged');
    if (drag && event.type === 'pointerup' && Math.abs(event.clientX - drag.start) < 4 && isReady())
      choose(painter.sliceAt(event));
  };
  canvas.addEventListener('pointerup', lift);
  canvas.addEventListener('pointercancel', lift);
  canvas.addEventListener('pointerleave', () => point(null));
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!isReady()) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
      else zoom(1.0015 ** event.deltaY, painter.shareAt(event));
    },
    { passive: false },
  );
}

export function open(root, route) {
  let model = null;
  let isRecording = false;
  let view = { from: 0, to: 1 };
  let wantedView = null;
  let chosen = null;
  let hover = null;
  let lit = null;
  let frame = 0;
  let endTimer = null;
  let countdown = null;
  let noteTimer = null;

  const seconds = h(
    'select',
    { 'aria-label': 'Seconds to record' },
    [1, 5, 10, 30].map((n) => h('option', { value: n, text: `${n} s` })),
  );
  seconds.value = '5';
  const record = h('button', { type: 'button', class: 'primary', text: 'Record', onclick: startRecording });
  const said = h('span', { class: 'quiet matched', role: 'status' });
  const download = h('a', { class: 'button', href: '/api/v1/trace.json', download: '', text: 'Download for Perfetto' });
  const tool = (text, label, act) =>
    h('button', { type: 'button', text, 'aria-label': label, title: label, onclick: act });
  const tools = h(
    'div',
    { class: 'choice', role: 'group', 'aria-label': 'View' },
    tool('−', 'Zoom out (−)', () => zoom(2)),
    tool('+', 'Zoom in (+)', () => zoom(0.5)),
    tool('◂', 'Earlier (←)', () => pan(-0.3)),
    tool('▸', 'Later (→)', () => pan(0.3)),
    tool('All', 'Show all (0)', showAll),
  );
  const canvas = h('canvas', {
    tabindex: '0',
    role: 'application',
    'aria-label':
      'Timeline. Plus and minus zoom, left and right pan, up and down change the worker, comma and full stop go to the poll before or after.',
  });
  const tip = h('div', { class: 'tip', hidden: true });
  const stage = h('div', { class: 'stage' }, canvas, tip);
  const detail = detailLine();
  const legend = legendTable((site) => {
    lit = lit === site ? null : site;
    legend.update(model, lit);
    redraw();
  }, bringIntoView);
  const none = empty(
    'Nothing is recorded yet',
    'Record some seconds to see which worker polled which task, when it was woken, and by which worker. The recording ends by itself.',
  );
  const drawing = h('div', { hidden: true }, stage, detail, legend, h('p', { class: 'quiet', text: SIGNS }));
  root.append(
    h('h1', { class: 'unseen', text: 'Timeline' }),
    h('div', { class: 'bar' }, record, seconds, tools, download, said),
    none,
    drawing,
  );
  const painter = createPainter(canvas);

  // Recording.

  const loader = single(
    (signal) => get('trace', {}, signal),
    (answer) => {
      if (answer.recording) {
        waitForEnd(answer.ends_in_ms);
        return;
      }
      const hasEvents = answer.events.length > 0;
      if (hasEvents) take(answer);
      else setText(said, isRecording ? 'Nothing happened while it recorded: no poll, no wake-up.' : '');
      isRecording = false;
      record.disabled = false;
      show(drawing, hasEvents);
      show(none, !hasEvents);
      drawTools();
    },
    (error) => {
      setText(said, error.message);
      record.disabled = false;
    },
  );

  function take(answer) {
    model = build(answer);
    chosen = hover = lit = null;
    show(drawing, true);
    const dropped = answer.dropped ? `; ${count(answer.dropped)} more were dropped` : '';
    const why = 'They came faster than they can be copied, or before the last 200,000. Record for a shorter time.';
    setAttr(said, 'title', dropped ? why : null);
    setText(said, `${plural(model.events, 'event')} in ${us(model.span)}${dropped}`);
    if (wantedView) setView(...wantedView);
    else showAll();
    wantedView = null;
    legend.update(model, lit);
    detail.update(model, chosen);
  }

  async function startRecording() {
    record.disabled = true;
    wantedView = null;
    note({ from: '', to: '' });
    try {
      waitForEnd((await post('record', { seconds: Number(seconds.value) })).ends_in_ms);
    } catch (error) {
      setText(said, error.message);
      record.disabled = false;
    }
  }

  function waitForEnd(left) {
    isRecording = true;
    record.disabled = true;
    const end = Date.now() + (left ?? 1000);
    const step = () => setText(said, `Recording, ${(Math.max(0, end - Date.now()) / 1000).toFixed(1)} s left …`);
    step();
    clearInterval(countdown);
    countdown = setInterval(step, 100);
    clearTimeout(endTimer);
    endTimer = setTimeout(
      () => {
        clearInterval(countdown);
        loader.run();
      },
      (left ?? 1000) + 150,
    );
  }

  function drawTools() {
    show(download, !!model);
    for (const button of tools.children) button.disabled = !model;
  }

  // The view.

  function redraw() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (model && !drawing.hidden) painter.draw({ model, view, chosen, hover, lit });
    });
  }

  function setView(from, to) {
    const width = Math.max(Math.min(SHORTEST, model.span), Math.min(model.span, to - from)) || model.span;
    from = Math.max(0, Math.min(model.span - width, from || 0));
    view = { from, to: from + width };
    redraw();
    const isFirst = view.from === 0 && view.to === model.span;
    clearTimeout(noteTimer);
    noteTimer = setTimeout(
      () => note({ from: isFirst ? '' : Math.round(view.from), to: isFirst ? '' : Math.round(view.to) }),
      300,
    );
  }

  function showAll() {
    if (model) setView(0, model.span);
  }

  function zoom(factor, at = 0.5) {
    if (!model) return;
    const width = view.to - view.from;
    const middle = view.from + width * at;
    setView(middle - width * factor * at, middle + width * factor * (1 - at));
  }

  /** Moves the view by a share of its width, from where it began. */
  function panTo(start, share) {
    const width = view.to - view.from;
    setView(start + width * share, start + width * share + width);
  }

  function pan(share) {
    if (model) panTo(view.from, share);
  }

  function choose(slice) {
    chosen = slice;
    detail.update(model, chosen);
    redraw();
  }

  function bringIntoView(slice) {
    const width = view.to - view.from;
    if (slice.took > width / 2 || slice.took < width / 4000)
      setView(slice.at - slice.took * 4, slice.at + slice.took * 5);
    else if (slice.at < view.from || slice.at + slice.took > view.to)
      setView(slice.at - width * 0.4, slice.at + width * 0.6);
    choose(slice);
  }

  function point(slice, event) {
    if (slice !== hover) {
      hover = slice;
      redraw();
    }
    show(tip, !!slice);
    if (!slice) return;
    const name = slice.kind === 'park' ? 'asleep' : `${labelOf(model, slice)}\n${slice.site.name}`;
    setText(tip, [name, `${us(slice.took)} at ${us(slice.at)}`, wokenText(model, slice)].filter(Boolean).join('\n'));
    const box = stage.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.clientY - box.top + 18}px`;
  }

  /** Goes to the poll before or after on the same row, or to the nearest poll of another row. */
  function step(by, rows = 0) {
    const row = Math.max(0, Math.min(model.rows.length - 1, (chosen?.row ?? 0) + rows));
    const polls = model.rows[row].slices.filter((slice) => slice.kind === 'poll');
    const known = polls.indexOf(chosen);
    const next = known >= 0 && !rows ? known + by : lowerBound(polls, chosen?.at ?? view.from);
    const slice = polls[Math.max(0, Math.min(polls.length - 1, next))];
    if (slice) bringIntoView(slice);
  }

  addGestures(canvas, painter, { isReady: () => !!model, zoom, pan, panTo, viewStart: () => view.from, choose, point });
  const watcher = new ResizeObserver(redraw);
  watcher.observe(stage);
  const themed = () => {
    painter.forget();
    redraw();
  };
  document.addEventListener('themechange', themed);
  const to = Number(route.params.get('to'));
  if (to > 0) wantedView = [Number(route.params.get('from')), to];
  drawTools();
  loader.run();

  const KEYS = {
    '+': () => zoom(0.5),
    '=': () => zoom(0.5),
    '-': () => zoom(2),
    0: showAll,
    ArrowLeft: () => pan(-0.2),
    ArrowRight: () => pan(0.2),
    ArrowUp: () => step(0, -1),
    ArrowDown: () => step(0, 1),
    k: () => step(0, -1),
    j: () => step(0, 1),
    ',': () => step(-1),
    '.': () => step(1),
  };
  return {
    route({ params }) {
      if (model) setView(Number(params.get('from')), Number(params.get('to')) || model.span);
    },
    tick() {},
    key(event) {
      if (!model || !KEYS[event.key] || event.target.closest?.('button, select, a')) return false;
      KEYS[event.key]();
      return true;
    },
    close() {
      clearTimeout(endTimer);
      clearTimeout(noteTimer);
      clearInterval(countdown);
      cancelAnimationFrame(frame);
      watcher.disconnect();
      document.removeEventListener('themechange', themed);
      loader.cancel();
    },
  };
}
