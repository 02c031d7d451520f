// Screen "Resources": locks, permits, channels, timers, sockets, files, closures: who holds them, who waits.

import { get } from './api.js';
import { h, keyed, setAttr, setText, show } from './dom.js';
import { count, ms, plural, shortSite, taskKey, taskName } from './format.js';
import { duration, empty, holders, resourceKey, select, taskLink } from './parts.js';
import { amend, link, note } from './router.js';
import { createTable, paged } from './table.js';

const text = (of) => () => {
  const node = h('span', { class: 'cell' });
  node.update = (row) => {
    setText(node, of(row));
    setAttr(node, 'title', of(row));
  };
  return node;
};

function heldBy(row) {
  if (!row.holders.length) return row.other_holders ? 'others' : '';
  const names = row.holders.map((holder) => (holder.task ? taskName(holder.task) : 'a thread'));
  return names.slice(0, 2).join(', ') + (names.length > 2 || row.other_holders ? ' and others' : '');
}

const COLUMNS = [
  { id: 'detail', label: 'kind', sort: 'kind', make: text((r) => r.phrase) },
  {
    id: 'resource',
    label: 'resource',
    make: text((r) =>
      r.id && r.label !== 'timers'
        ? [r.label, r.detail].filter(Boolean).join(' ')
        : `${r.label || ''} ${r.site_label || 'at'} ${shortSite(r.site, 24)}`,
    ),
  },
  { id: 'holder', label: 'held by', make: text(heldBy) },
  {
    id: 'acquired',
    label: 'acquired at',
    make: text((r) => (r.holders[0]?.acquired_at ? shortSite(r.holders[0].acquired_at, 24) : '')),
  },
  { id: 'waiters', label: 'waiting tasks', sort: 'waiters', num: true, make: text((r) => count(r.waiters)) },
  {
    id: 'longest',
    label: 'longest wait',
    sort: 'longest',
    num: true,
    make() {
      const node = duration(null);
      const set = node.update;
      node.update = (r) => set(r.longest_ms);
      return node;
    },
  },
];

const keyOf = (row) => resourceKey(row.runtime, row);

export function open(root, route) {
  let params = {};
  let kinds = [];
  let typing = null;
  const search = h('input', {
    type: 'search',
    placeholder: 'Search kind, address, peer, holder  ( / )',
    'aria-label': 'Search resources',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  search.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => amend({ q: search.value.trim() }), 150);
  });
  const kind = select('kind', (value) => amend({ kind: value }, true));
  const clear = h('button', {
    type: 'button',
    text: 'Clear filters',
    onclick: () => amend({ q: '', kind: '', sel: '' }, true),
  });
  const matched = h('span', { class: 'quiet matched', role: 'status' });

  const close = h('button', { type: 'button', text: 'Close', onclick: () => choose(null) });
  const title = h('h2');
  const what = h('p', { class: 'quiet' });
  const held = holders();
  const free = h('p', { class: 'quiet', text: 'No task holds it, or its kind of resource has no holder.' });
  const waiters = h('div', { class: 'links column' });
  const waitHead = h('h3');
  const all = h('a');
  const panel = h(
    'aside',
    { class: 'panel', hidden: true, 'aria-label': 'The chosen resource' },
    h('div', { class: 'panel-head' }, title, close),
    what,
    h('h3', { text: 'Held by' }),
    free,
    held,
    waitHead,
    waiters,
    all,
  );

  const source = paged((offset, limit, signal) =>
    get('resources', { q: params.q, kind: params.kind, sort: params.sort, order: params.order, offset, limit }, signal),
  );
  const table = createTable({
    name: 'resources',
    label: 'Resources',
    columns: COLUMNS,
    source,
    keyOf,
    open: (row) => choose(row),
    sorted(column) {
      const order =
        params.sort === column.sort ? (params.order === 'desc' ? 'asc' : 'desc') : column.num ? 'desc' : 'asc';
      amend({ sort: column.sort, order }, true);
    },
  });
  let shown = null;

  function choose(row) {
    shown = row ? keyOf(row) : null;
    note({ sel: shown });
    drawPanel();
  }

  function drawPanel() {
    let row = null;
    if (shown)
      for (let i = 0; i < Math.min(source.total() || 0, 400) && !row; i++)
        if (source.row(i) && keyOf(source.row(i)) === shown) row = source.row(i);
    row ||= shown && table.selectedRow() && keyOf(table.selectedRow()) === shown ? table.selectedRow() : null;
    show(panel, !!row);
    if (!row) return;
    setText(title, `${row.kind} ${row.label}`);
    setText(
      what,
      [row.phrase, row.detail, row.site ? `${row.site_label} ${row.site}` : '', `runtime ${row.runtime}`]
        .filter(Boolean)
        .join(' · '),
    );
    show(free, !row.holders.length && !row.other_holders);
    held.update(row.holders, row.other_holders);
    setText(
      waitHead,
      row.waiters ? `${plural(row.waiters, 'task')} waiting, for up to ${ms(row.longest_ms)}` : 'No task waits for it',
    );
    keyed(waiters, row.first_waiters, taskKey, taskLink);
    show(all, row.waiters > row.first_waiters.length);
    setText(all, `All ${count(row.waiters)} waiting tasks`);
    setAttr(all, 'href', link('tasks', { q: row.label, wait: row.kind }));
  }

  source.changed = (answer) => {
    kinds = answer.kinds || kinds;
    table.status('');
    table.changed();
    const total = source.total();
    setText(matched, plural(total, 'resource'));
    table.blank(
      total
        ? null
        : params.q || params.kind
          ? empty(
              'No resource matches',
              'It may have been released: only resources that a task waits for are listed. Remove a filter to see the others.',
            )
          : empty(
              'No task waits for a resource',
              'Locks, channels, timers, sockets and files are listed here while a task waits for them, with their holders.',
            ),
    );
    drawBar();
    drawPanel();
  };
  source.failed = (error) => table.status(`Not up to date: ${error.message}`);
  root.append(
    h('h1', { class: 'unseen', text: 'Resources' }),
    h('div', { class: 'bar' }, search, kind, clear, matched),
    h('div', { class: 'host split' }, table.el, panel),
  );

  function drawBar() {
    kind.update(
      [['', 'any kind'], ...kinds.map(({ kind, count: n }) => [kind, `${kind} (${count(n)})`])],
      params.kind || '',
    );
    show(clear, !!(params.q || params.kind));
  }

  function setRoute({ params: query }) {
    const next = { sort: 'waiters', order: 'desc', ...Object.fromEntries(query) };
    shown = next.sel || null;
    delete next.sel;
    const isRepeat = JSON.stringify(next) === JSON.stringify(params);
    const isFirst = !Object.keys(params).length;
    params = next;
    table.want(shown);
    if (!isRepeat) {
      if (!isFirst) table.scrollTop();
      source.restart();
    }
    table.markSort(params.sort, params.order);
    if (document.activeElement !== search) search.value = params.q || '';
    drawBar();
    drawPanel();
  }

  setRoute(route);
  return {
    route: setRoute,
    tick() {
      source.refresh();
    },
    key(event) {
      if (event.key === 'Escape' && shown) {
        choose(null);
        table.focus();
        return true;
      }
      return table.key(event);
    },
    focusRows: () => table.focus(),
    close() {
      clearTimeout(typing);
      table.close();
    },
  };
}
