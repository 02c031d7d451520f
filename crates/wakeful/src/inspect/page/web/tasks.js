// Screen "Tasks": all tasks as a list, as groups by spawn site, or as a tree of which task spawned which.

import { get } from './api.js';
import { h, setAttr, setText, show } from './dom.js';
import { sparkline } from './chart.js';
import { count, growth, plural, shortSite, toMs } from './format.js';
import {
  choice,
  duration,
  empty,
  groupLink,
  ofRuntime,
  runtimeName,
  select,
  stateMark,
  taskHref,
  taskLink,
  waitLine,
} from './parts.js';
import { amend, go, link, note } from './router.js';
import { createTable, paged } from './table.js';
import { treeSource } from './tree.js';

const STATES = [
  ['', 'any state'],
  ['running', 'running'],
  ['queued', 'queued'],
  ['waiting', 'waiting'],
  ['orphan', 'orphan'],
  ['closure', 'closure'],
];

/** A cell that shows text; `of(row)` is the text, `title(row)` what hovers. */
const text = (of, title) => () => {
  const node = h('span', { class: 'cell' });
  node.update = (row) => {
    setText(node, of(row));
    if (title) setAttr(node, 'title', title(row));
  };
  return node;
};
const time = (of) => () => {
  const node = duration(null);
  const { update } = node;
  node.update = (row) => update(of(row));
  return node;
};
const since = (task) =>
  (task.waits || [])
    .filter((wait) => !wait.earlier)
    .reduce((most, wait) => Math.max(most ?? 0, wait.duration_ms ?? 0), null);

const TASK_COLUMNS = [
  { id: 'task', label: 'task', sort: 'name', make: () => taskLink() },
  { id: 'state', label: 'state', sort: 'state', make: () => stateMark() },
  {
    id: 'wait',
    label: 'waits for',
    make: text(
      (t) => waitLine(t.waits),
      (t) => waitLine(t.waits),
    ),
  },
  { id: 'since', label: 'wait time', sort: 'wait', num: true, make: time(since) },
  { id: 'age', label: 'age', sort: 'age', num: true, make: time((t) => t.age_ms) },
  { id: 'busy', label: 'busy', sort: 'busy', num: true, title: 'time in polls', make: time((t) => t.busy_ms) },
  { id: 'polls', label: 'polls', sort: 'polls', num: true, make: text((t) => count(t.polls)) },
  { id: 'wakes', label: 'wakes', sort: 'wakes', num: true, make: text((t) => count(t.wakes)) },
  {
    id: 'spawned',
    label: 'spawned at',
    sort: 'spawned',
    make: text(
      (t) => shortSite(t.spawned_at, 24),
      (t) => t.spawned_at,
    ),
  },
];

const groupColumns = (live) => [
  {
    id: 'site',
    label: 'spawned at',
    make() {
      const a = groupLink('', 1, 24);
      const runtime = h('span', { class: 'quiet' });
      const node = h('span', {}, a, runtime);
      node.update = (g) => {
        a.update(g.spawned_at, g.runtime);
        setText(runtime, ofRuntime(g.runtime, live.overview));
      };
      return node;
    },
  },
  { id: 'alive', label: 'tasks', sort: 'alive', num: true, make: text((g) => count(g.alive)) },
  {
    id: 'trend',
    label: 'last minute',
    make() {
      const s = sparkline('tasks alive over the last minute');
      const set = s.update;
      s.update = (g) => set(g.history, null, `tasks alive over the last minute: now ${g.alive}`);
      return s;
    },
  },
  { id: 'growth', label: 'growth', sort: 'growth', num: true, make: text((g) => growth(g.growth_per_min)) },
  { id: 'started', label: 'started', sort: 'started', num: true, make: text((g) => count(g.started)) },
  { id: 'busy', label: 'busy', sort: 'busy', num: true, title: 'time in polls', make: time((g) => g.busy_ms) },
  { id: 'poll', label: 'poll p99', sort: 'poll_p99', num: true, make: time((g) => toMs(g.poll_p99_us)) },
  { id: 'waitp', label: 'wait p99', sort: 'wait_p99', num: true, make: time((g) => g.wait_p99_ms) },
  { id: 'oldest', label: 'oldest', sort: 'oldest', num: true, make: time((g) => g.oldest_ms) },
  {
    id: 'wait',
    label: 'waits for',
    make: text(
      (g) =>
        g.waits.map((w) => `${w.kind}: ${count(w.count)}`).join(', ') ||
        (g.running ? `${count(g.running)} running` : ''),
      (g) => g.waits.map((w) => `${w.kind}: ${w.count}, ${w.site_label} ${w.site}`).join('\n'),
    ),
  },
];

function treeColumns(source) {
  const name = {
    id: 'task',
    label: 'task and its children',
    make() {
      const twist = h('button', { type: 'button', class: 'twist', tabindex: '-1' });
      const link = taskLink();
      const label = h('span', { class: 'quiet' });
      const node = h('span', { class: 'branch' }, twist, link, label);
      let row = null;
      twist.addEventListener('click', () => source.toggle(row));
      node.update = (next) => {
        row = next;
        node.style.paddingLeft = `${row.depth * 18}px`;
        const parent = !row.more && (row.runtime || row.task.children > 0);
        setText(twist, parent ? (source.isOpen(row) ? '▾' : '▸') : '·');
        setAttr(twist, 'aria-label', parent ? (source.isOpen(row) ? 'Close' : 'Open') : null);
        twist.disabled = !parent;
        show(link, !!row.task);
        if (row.task) link.update(row.task);
        setText(
          label,
          row.more
            ? `${count(row.left)} more …`
            : row.runtime
              ? `${runtimeName(row.runtime)}, ${row.runtime.flavor}`
              : '',
        );
      };
      return node;
    },
  };
  const of = (column, rename = {}) => ({
    ...column,
    sort: null,
    ...rename,
    make() {
      const node = column.make();
      const set = node.update;
      node.update = (row) => {
        node.hidden = !row.task;
        if (row.task) set(row.task);
      };
      return node;
    },
  });
  const children = {
    id: 'children',
    label: 'children',
    num: true,
    make: text((row) => (row.task?.children ? count(row.task.children) : row.runtime ? count(row.total) : '')),
  };
  const by = (id) => of(TASK_COLUMNS.find((column) => column.id === id));
  return [name, children, by('state'), by('wait'), by('since'), by('age'), by('busy'), by('polls')];
}

export function open(root, route, live) {
  let params = {};
  let mode = null;
  let table = null;
  let source = null;
  let typing = null;
  let ticks = 0;

  const search = h('input', {
    type: 'search',
    placeholder: 'Search name, id, site, wait  ( / )',
    'aria-label': 'Search tasks',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  search.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => amend({ q: search.value.trim(), ...(mode === 'tree' ? { mode: '' } : {}) }), 150);
  });
  const modes = choice(
    'Show as',
    [
      ['list', 'List'],
      ['groups', 'Groups'],
      ['tree', 'Tree'],
    ],
    (value) => amend({ mode: value === 'list' ? '' : value, sort: '', order: '' }, true),
  );
  const state = select('state', (value) => amend({ state: value }, true));
  const wait = select('waits for', (value) => amend({ wait: value }, true));
  const runtime = select('runtime', (value) => amend({ runtime: value }, true));
  const siteChip = h('button', { type: 'button', class: 'chip', onclick: () => amend({ site: '' }, true) });
  const clear = h('button', {
    type: 'button',
    text: 'Clear filters',
    onclick: () => go(link('tasks', { mode: params.mode })),
  });
  const matched = h('span', { class: 'quiet matched', role: 'status' });
  const host = h('div', { class: 'host' });
  root.append(
    h('h1', { class: 'unseen', text: 'Tasks' }),
    h('div', { class: 'bar' }, search, modes, state, wait, runtime, siteChip, clear, matched),
    host,
  );
  let kinds = [];

  const filters = () => ({
    runtime: params.runtime,
    q: params.q,
    state: params.state,
    wait: params.wait,
    site: params.site,
  });

  function build() {
    table?.close();
    const sorted = (column) => {
      const order =
        params.sort === column.sort ? (params.order === 'desc' ? 'asc' : 'desc') : column.num ? 'desc' : 'asc';
      amend({ sort: column.sort, order }, true);
    };
    if (mode === 'tree') {
      const opened = new Set((params.open || '').split(' ').filter(Boolean));
      source = treeSource({
        runtimes: () =>
          (live.overview?.runtimes || []).filter((r) => !params.runtime || String(r.id) === params.runtime),
        opened,
        toggled: () =>
          note({
            open: [...opened]
              .filter((key) => !key.startsWith('r'))
              .slice(-60)
              .join(' '),
          }),
      });
      table = createTable({
        name: 'tree',
        label: 'Task tree',
        columns: treeColumns(source),
        source,
        keyOf: (row) => row.key,
        open: (row) => (row.task ? go(taskHref(row.task)) : source.toggle(row)),
        key: (event, row) =>
          event.key === 'ArrowRight'
            ? source.toggle(row, true) || true
            : event.key === 'ArrowLeft'
              ? source.toggle(row, false) || true
              : false,
      });
    } else if (mode === 'groups') {
      source = paged((offset, limit, signal) =>
        get(
          'groups',
          { runtime: params.runtime, q: params.q, sort: params.sort, order: params.order, offset, limit },
          signal,
        ),
      );
      table = createTable({
        name: 'groups',
        label: 'Groups of tasks by spawn site',
        columns: groupColumns(live),
        source,
        sorted,
        keyOf: (group) => `${group.runtime} ${group.spawned_at}`,
        open: (group) => go(link('tasks', { site: group.spawned_at, runtime: group.runtime })),
      });
    } else {
      source = paged((offset, limit, signal) =>
        get('tasks', { ...filters(), sort: params.sort, order: params.order, offset, limit }, signal),
      );
      table = createTable({
        name: 'tasks',
        label: 'Tasks',
        columns: TASK_COLUMNS,
        source,
        sorted,
        keyOf: taskHref,
        open: (task) => go(taskHref(task)),
        rowClass: (task) => (task.orphan ? 'is-orphan' : ''),
      });
    }
    source.changed = (answer) => {
      if (answer.kinds) kinds = answer.kinds;
      table.status('');
      table.changed();
      drawBar(answer);
    };
    source.failed = (error) => table.status(`Not up to date: ${error.message}`);
    host.replaceChildren(table.el);
  }

  function drawBar(answer) {
    const total = source.total();
    const isFiltered = !!(params.q || params.state || params.wait || params.site || params.runtime);
    if (answer && total !== null) {
      const all = answer.matched !== undefined ? answer.total : null;
      const roots = answer.block_ons ?? 0;
      setText(
        matched,
        mode === 'groups'
          ? plural(total, 'group')
          : mode === 'tree'
            ? plural(
                (live.overview?.runtimes || []).reduce((sum, r) => sum + r.alive, 0),
                'task',
              )
            : all !== null && all !== total
              ? `${count(total)} of ${plural(all, 'task')}`
              : `${plural(total - roots, 'task')}${roots > 0 ? ` and ${count(roots)} block_on` : ''}`,
      );
      table.blank(
        total
          ? null
          : isFiltered
            ? empty('No task matches', 'Remove a filter, or search for another name, id or site.')
            : empty('No tasks', 'Each task of the program is a row here, from its spawn to its end.'),
      );
    }
    show(clear, isFiltered);
    show(siteChip, !!params.site);
    setText(siteChip, params.site ? `spawned at ${shortSite(params.site)} ✕` : '');
    setAttr(siteChip, 'aria-label', params.site ? `Remove the filter: spawned at ${params.site}` : null);
    show(state, mode === 'list');
    show(wait, mode === 'list');
    state.update(STATES, params.state || '');
    wait.update(
      [['', 'anything'], ...kinds.map(({ kind, count: n }) => [kind, `${kind} (${count(n)})`])],
      params.wait || '',
    );
    const runtimes = live.overview?.runtimes || [];
    show(runtime, runtimes.length > 1 || params.runtime);
    runtime.update(
      [['', 'all runtimes'], ...runtimes.map((r) => [String(r.id), runtimeName(r)])],
      params.runtime || '',
    );
  }

  function setRoute({ params: query }) {
    const next = Object.fromEntries(query);
    const wanted = ['groups', 'tree'].includes(next.mode) ? next.mode : 'list';
    if (!next.sort) {
      next.sort = { list: 'age', groups: 'alive' }[wanted] || '';
      next.order = 'desc';
    }
    if (!next.order) next.order = 'desc';
    const isSame = wanted === mode && (wanted !== 'tree' || next.runtime === params.runtime);
    const isRepeat = JSON.stringify(next) === JSON.stringify(params);
    params = next;
    if (!isSame) {
      mode = wanted;
      build();
    } else if (!isRepeat && mode !== 'tree') {
      table.scrollTop();
      source.restart();
    }
    table.markSort(params.sort, params.order);
    modes.update(mode);
    if (document.activeElement !== search) search.value = params.q || '';
    drawBar();
  }

  setRoute(route);
  return {
    route: setRoute,
    tick() {
      if (mode === 'list' || ticks++ % 2 === 0 || source.total() === null) source.refresh();
      drawBar();
    },
    key: (event) => table.key(event),
    focusRows: () => table.focus(),
    close() {
      clearTimeout(typing);
      table.close();
    },
  };
}
