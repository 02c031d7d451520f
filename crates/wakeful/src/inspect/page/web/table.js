// A table of any length: only visible rows exist as elements, and rows are loaded page by page.
//
// A source has `total()`, `row(i)`, `ensure(first, last)`, `refresh()` and `close()`, and calls
// `source.changed()` when its rows have changed. `paged` is the source for lists that the program pages.

import { single } from './api.js';
import { h, setAttr, setText, show } from './dom.js';
import { remember, remembered } from './router.js';

const OVERSCAN = 8;
const PAGE = 50;
const MAX_BATCH = 200;

/** A source over `load(offset, limit, signal)`, which resolves to `{total, rows}`. */
export function paged(load) {
  let rows = new Map();
  let total = null;
  let wanted = [0, PAGE];
  let timer = null;
  let isStale = false;
  const source = { changed() {}, failed() {} };
  const loader = single(
    async (signal) => {
      const [first, last] = wanted;
      return { first, answer: await load(first, Math.min(MAX_BATCH, last - first), signal) };
    },
    ({ first, answer }) => {
      if (isStale) {
        rows = new Map();
        isStale = false;
      }
      total = answer.matched ?? answer.total;
      answer.rows.forEach((row, i) => rows.set(first + i, row));
      for (const i of rows.keys()) if (i >= total || Math.abs(i - first) > 1000) rows.delete(i);
      source.changed(answer);
    },
    (error) => source.failed(error),
  );
  return Object.assign(source, {
    total: () => total,
    row: (i) => rows.get(i),
    isStale: () => isStale,
    ensure(first, last) {
      first = Math.floor(first / PAGE) * PAGE;
      last = Math.min(Math.ceil((last + 1) / PAGE) * PAGE, total ?? Infinity);
      wanted = [first, last];
      for (let i = first; i < last; i++) {
        if (!rows.has(i)) {
          clearTimeout(timer);
          timer = setTimeout(() => loader.restart(), 30);
          return;
        }
      }
    },
    /** Reloads the visible rows; the others are forgotten. */
    refresh() {
      for (const i of rows.keys()) if (i < wanted[0] - MAX_BATCH || i > wanted[1] + MAX_BATCH) rows.delete(i);
      loader.run();
    },
    /** Starts over, because a filter or the order has changed. The old rows stay until the new ones arrive. */
    restart(first = 0) {
      isStale = true;
      wanted = [first, first + PAGE * 2];
      clearTimeout(timer);
      loader.restart();
    },
    close() {
      clearTimeout(timer);
      loader.cancel();
    },
  });
}

let serial = 0;

/**
 * Builds a table. Columns are `{id, label, sort, num, make}`, where `make()` returns an element with
 * `update(row)`. `open(row)` is called for Enter and a click, `keyOf(row)` names a row across updates.
 */
export function createTable({
  name,
  label,
  columns,
  source,
  keyOf,
  open,
  sorted,
  chosen = () => {},
  key = () => false,
  rowClass = () => '',
}) {
  const id = `vt${++serial}`;
  const heads = columns.map((column) => {
    const text = h('span', { text: column.label });
    const arrow = h('span', { class: 'arrow', 'aria-hidden': 'true' });
    const inner = column.sort
      ? h('button', { type: 'button', title: column.title, onclick: () => sorted(column) }, text, arrow)
      : h('span', { title: column.title }, text);
    const cell = h('div', { role: 'columnheader', class: `c-${column.id}${column.num ? ' r' : ''}` }, inner);
    cell.mark = (sort, order) => {
      const is = column.sort && column.sort === sort;
      setAttr(cell, 'aria-sort', is ? (order === 'asc' ? 'ascending' : 'descending') : null);
      setText(arrow, is ? (order === 'asc' ? '▲' : '▼') : '');
    };
    return cell;
  });
  const body = h('div', { class: 'vt-body', role: 'rowgroup' });
  const el = h(
    'div',
    { class: `vt cols-${name}`, role: 'grid', 'aria-label': label, tabindex: '0' },
    h('div', { class: 'vt-head', role: 'row', 'aria-rowindex': 1 }, heads),
    body,
  );
  const status = h('div', { class: 'vt-status', role: 'status' });
  const blank = h('div', { class: 'vt-blank', hidden: true });
  const wrap = h('div', { class: 'vt-wrap' }, el, blank, status);

  let rowHeight = 32;
  let pool = [];
  let selected = -1;
  let selectedKey = null;
  let isRestored = false;
  let frame = 0;
  let scrollTimer = null;

  function makeRow() {
    const cells = columns.map((column) => {
      const inner = column.make();
      const cell = h('div', { role: 'gridcell', class: `c-${column.id}${column.num ? ' r' : ''}` }, inner);
      cell.update = inner.update;
      return cell;
    });
    const node = h('div', { class: 'vt-row', role: 'row' }, cells);
    node.cells = cells;
    node.index = -1;
    node.addEventListener('click', (event) => {
      if (event.target.closest('a, button') || String(getSelection())) return;
      choose(node.index);
      const row = source.row(node.index);
      if (row) leave(row);
    });
    return node;
  }

  function leave(row) {
    remember({ [name]: { top: el.scrollTop, selectedKey, selected } });
    open(row);
  }

  function measure() {
    rowHeight = parseFloat(getComputedStyle(el).getPropertyValue('--row')) || 32;
    const size = Math.ceil(el.clientHeight / rowHeight) + 2 * OVERSCAN;
    while (pool.length < size) {
      const node = makeRow();
      pool.push(node);
      body.append(node);
    }
    draw();
  }

  function draw() {
    frame = 0;
    const total = source.total() ?? 0;
    body.style.height = `${total * rowHeight}px`;
    setAttr(el, 'aria-rowcount', total + 1);
    const height = el.clientHeight;
    if (!height || !pool.length) return;
    const first = Math.max(0, Math.floor(el.scrollTop / rowHeight) - OVERSCAN);
    const last = Math.min(total - 1, first + pool.length - 1);
    for (let i = first; i < first + pool.length; i++) {
      const node = pool[i % pool.length];
      if (node.index !== i) {
        node.index = i;
        node.style.transform = `translateY(${i * rowHeight}px)`;
        setAttr(node, 'aria-rowindex', i + 2);
        node.id = `${id}-${i}`;
      }
      show(node, i < total);
      if (i >= total) continue;
      const row = source.row(i);
      node.classList.toggle('is-missing', !row);
      setAttr(node, 'aria-selected', i === selected ? 'true' : 'false');
      if (!row) continue;
      const extra = rowClass(row);
      if (node.extra !== extra) {
        node.className = `vt-row ${extra}`;
        node.extra = extra;
      }
      for (const cell of node.cells) cell.update(row);
    }
    setAttr(el, 'aria-activedescendant', selected >= first && selected <= last ? `${id}-${selected}` : null);
    if (last >= 0 || source.total() === null) source.ensure(first, Math.max(last, first));
  }

  const soon = () => {
    if (!frame) frame = requestAnimationFrame(draw);
  };

  function choose(i) {
    selected = i;
    const row = source.row(i);
    if (row) selectedKey = keyOf(row);
    chosen(row);
    soon();
  }

  function move(to) {
    const total = source.total() || 0;
    if (!total) return;
    to = Math.max(0, Math.min(total - 1, to));
    const head = el.firstElementChild.offsetHeight;
    const top = to * rowHeight;
    if (top < el.scrollTop) el.scrollTop = top;
    else if (top + rowHeight + head > el.scrollTop + el.clientHeight)
      el.scrollTop = top + rowHeight + head - el.clientHeight;
    choose(to);
    draw();
  }

  const table = {
    el: wrap,
    grid: el,
    draw: soon,
    selectedRow: () => source.row(selected),
    /** Selects the row with this key as soon as it is visible. */
    want(key) {
      selectedKey = key;
    },
    markSort(sort, order) {
      for (const cell of heads) cell.mark(sort, order);
    },
    status: (text) => setText(status, text),
    blank(node) {
      blank.replaceChildren(...(node ? [node] : []));
      show(blank, !!node);
    },
    scrollTop() {
      el.scrollTop = 0;
      selected = -1;
    },
    focus() {
      el.focus({ preventScroll: true });
      if (selected < 0) move(Math.floor(el.scrollTop / rowHeight));
    },
    key(event) {
      const page = Math.max(1, Math.floor(el.clientHeight / rowHeight) - 2);
      const steps = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
      if (event.target.closest?.('button, summary, details') && event.key !== 'j' && event.key !== 'k') return false;
      if (event.key === 's') {
        heads
          .find((head) => head.querySelector('button'))
          ?.querySelector('button')
          .focus();
        return true;
      }
      if (steps[event.key]) {
        el.focus({ preventScroll: true });
        if (selected < 0) move(Math.floor(el.scrollTop / rowHeight));
        else move(selected + steps[event.key]);
        return true;
      }
      if (event.key === 'Home' || event.key === 'End') {
        move(event.key === 'Home' ? 0 : source.total() - 1);
        return true;
      }
      const row = source.row(selected);
      if (row && key(event, row)) return true;
      if (event.key === 'Enter' && row && !event.target.closest?.('a')) {
        leave(row);
        return true;
      }
      return false;
    },
    /** Applies the current state of the source. */
    changed() {
      if (!isRestored) {
        isRestored = true;
        const was = remembered()[name];
        body.style.height = `${(source.total() || 0) * rowHeight}px`;
        if (was) {
          el.scrollTop = was.top;
          selected = was.selected ?? -1;
          selectedKey ??= was.selectedKey ?? null;
        }
      }
      if (selectedKey !== null) {
        for (const node of pool) {
          const row = source.row(node.index);
          if (row && keyOf(row) === selectedKey) {
            if (selected !== node.index) {
              selected = node.index;
              chosen(row);
            }
            break;
          }
        }
      }
      show(wrap, true);
      el.classList.remove('is-stale');
      draw();
    },
    close() {
      watcher.disconnect();
      cancelAnimationFrame(frame);
      clearTimeout(scrollTimer);
      source.close();
    },
  };

  el.addEventListener(
    'scroll',
    () => {
      soon();
      clearTimeout(scrollTimer);
      const at = location.hash;
      scrollTimer = setTimeout(() => {
        if (location.hash === at) remember({ [name]: { top: el.scrollTop, selectedKey, selected } });
      }, 200);
    },
    { passive: true },
  );
  const watcher = new ResizeObserver(measure);
  watcher.observe(el);
  return table;
}
