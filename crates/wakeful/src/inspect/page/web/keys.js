// The keyboard: one listener for the whole page, and the help that lists its keys.

import { h } from './dom.js';
import { go } from './router.js';

const HELP = [
  ['1 … 6', 'Now, Tasks, the last task, Resources, Timeline, Metrics'],
  ['g then n t r l m', 'Now, Tasks, Resources, Timeline, Metrics'],
  ['/', 'search on this screen'],
  ['j k or ↓ ↑', 'move through rows or findings'],
  ['PgDn PgUp Home End', 'move faster'],
  ['Enter', 'open the chosen row'],
  ['→ ←', 'open or close a branch of the tree'],
  ['s, then a heading', 'go to the headings, to sort with Enter'],
  ['p', 'pause or continue live updates'],
  ['Esc', 'leave the search, close a panel'],
  ['Timeline: + − ← → 0', 'zoom, pan, show all'],
  ['Timeline: ↑ ↓ , .', 'other worker, earlier or later poll'],
  ['?', 'this help'],
];

/** Installs the keys. `screen()` returns the current screen, `lastTask()` the address of the last task. */
export function install({ screen, lastTask, pause }) {
  const dialog = document.getElementById('keys');
  const close = h('button', { type: 'button', text: 'Close', onclick: () => dialog.close() });
  dialog.append(
    h('div', { class: 'dialog-head' }, h('h2', { id: 'keys-title', text: 'Keys' }), close),
    h(
      'table',
      { class: 'plain' },
      h(
        'tbody',
        {},
        HELP.map(([keys, text]) => h('tr', {}, h('th', { scope: 'row' }, h('kbd', { text: keys })), h('td', { text }))),
      ),
    ),
  );
  const help = () => (dialog.open ? dialog.close() : dialog.showModal());
  document.getElementById('help').addEventListener('click', help);

  const numbered = ['now', 'tasks', null, 'resources', 'timeline', 'metrics'];
  const lettered = { n: 'now', t: 'tasks', r: 'resources', l: 'timeline', m: 'metrics' };
  let prefix = 0;
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target;
    const typing = target.matches?.('input, select, textarea');
    if (typing) {
      if (event.key === 'Escape') target.blur();
      if (target.matches('input[type=search]') && (event.key === 'ArrowDown' || event.key === 'Enter')) {
        event.preventDefault();
        screen()?.focusRows?.();
      }
      return;
    }
    if (dialog.open) {
      if (event.key === '?') dialog.close();
      return;
    }
    const isPrefixed = Date.now() - prefix < 1500;
    prefix = 0;
    if (isPrefixed && lettered[event.key]) go(`#/${lettered[event.key]}`);
    else if (event.key === 'g') prefix = Date.now();
    else if (event.key >= '1' && event.key <= '6')
      go(numbered[event.key - 1] ? `#/${numbered[event.key - 1]}` : lastTask() || '#/tasks');
    else if (event.key === '?') help();
    else if (event.key === 'p') pause();
    else if (event.key === '/') {
      const search = () => document.querySelector('main input[type=search]');
      if (search()) search().select();
      else {
        go('#/tasks');
        addEventListener('hashchange', () => search()?.focus(), { once: true });
      }
    } else if (!screen()?.key?.(event)) return;
    event.preventDefault();
  });
}

/** Moves focus through the elements marked `data-item` below `root`: for screens without a table. */
export function moveItems(root, event) {
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return false;
  const items = [...root.querySelectorAll('[data-item]')].filter((item) => item.offsetParent);
  if (!items.length) return false;
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[Math.max(0, Math.min(items.length - 1, at + step))];
  (next.matches('tr') ? next.querySelector('a') : next).focus();
  next.scrollIntoView({ block: 'nearest' });
  return true;
}
