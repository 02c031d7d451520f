// The rows of the task tree: a source for the table whose branches load when they are opened.

import { get } from './api.js';
import { taskKey } from './format.js';

const STEP = 100;

/** `runtimes()` lists the runtimes to show; `opened` is the set of open branches, `toggled()` is called after changes. */
export function treeSource({ runtimes, opened, toggled }) {
  const root = { key: 'root', children: [], total: 0, isOpen: true };
  let flat = null;
  let running = 0;
  let isClosed = false;
  const source = { changed() {}, failed() {} };

  const nodeOf = (task, depth, parent) => ({
    key: `${task.runtime}.${taskKey(task)}`,
    task,
    depth,
    parent,
    children: [],
    total: task.children,
    loaded: false,
  });

  function flatten() {
    const rows = [];
    const walk = (node) => {
      for (const child of node.children) {
        rows.push(child);
        if (opened.has(child.key)) walk(child);
      }
      if (node.children.length < node.total && node !== root) {
        rows.push({ key: `${node.key}+`, more: node, depth: node.depth + 1, left: node.total - node.children.length });
      }
    };
    walk(root);
    return rows;
  }

  async function load(node, limit) {
    if (node.isLoading || isClosed) return;
    node.isLoading = true;
    running++;
    try {
      const isRuntime = node.runtime !== undefined;
      const answer = await get('tree', {
        runtime: isRuntime ? node.runtime.id : node.task.runtime,
        parent: isRuntime ? null : taskKey(node.task),
        offset: 0,
        limit: Math.min(Math.max(STEP, limit), 1000),
      });
      const old = new Map(node.children.map((child) => [child.key, child]));
      node.total = answer.total;
      node.loaded = true;
      node.children = answer.rows.map((task) => {
        const fresh = nodeOf(task, node.depth + 1, node);
        const known = old.get(fresh.key);
        return known ? Object.assign(known, { task, total: known.loaded ? known.total : task.children }) : fresh;
      });
      // A tree with one root starts open.
      if (isRuntime && !node.seen && node.children.length === 1) opened.add(node.children[0].key);
      node.seen = true;
      for (const child of node.children)
        if (opened.has(child.key) && !child.loaded && child.task.children) load(child, STEP);
    } catch (error) {
      source.failed(error);
    } finally {
      node.isLoading = false;
      running--;
      if (!isClosed) {
        flat = flatten();
        source.changed({});
      }
    }
  }

  function refreshRoots() {
    const list = runtimes();
    const known = new Map(root.children.map((child) => [child.key, child]));
    root.children = list.map((runtime) => {
      const key = `r${runtime.id}`;
      const node = known.get(key) || { key, runtime, depth: 0, children: [], total: 0, loaded: false };
      if (!known.has(key)) opened.add(key);
      node.runtime = runtime;
      return node;
    });
    root.total = root.children.length;
  }

  function refresh() {
    refreshRoots();
    const walk = (node) => {
      if (!opened.has(node.key)) return;
      load(node, node.children.length);
      node.children.forEach((child) => {
        if (child.children.length) walk(child);
      });
    };
    root.children.forEach(walk);
    if (!root.children.length) {
      flat = [];
      source.changed({});
    }
  }

  const toggle = (row, want) => {
    if (!row || row.more || (!row.runtime && !row.task.children && !row.children.length)) return false;
    const is = opened.has(row.key);
    if (want === is) return false;
    if (is) opened.delete(row.key);
    else {
      opened.add(row.key);
      if (!row.loaded) load(row, STEP);
    }
    toggled();
    flat = flatten();
    source.changed({});
    return true;
  };

  return Object.assign(source, {
    total: () => (flat ? flat.length : null),
    row: (i) => flat?.[i],
    /** Loads the rows behind a "more" row as soon as it is visible. */
    ensure(first, last) {
      if (!flat) {
        if (!running) refresh();
        return;
      }
      for (let i = first; i <= last; i++) {
        const row = flat[i];
        if (row?.more && !row.more.isLoading && row.more.children.length < 1000)
          load(row.more, row.more.children.length + STEP);
      }
    },
    refresh,
    toggle,
    isOpen: (row) => opened.has(row.key),
    close() {
      isClosed = true;
    },
  });
}
