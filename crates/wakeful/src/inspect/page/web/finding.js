// A finding: what happened, how certain it is, to which tasks, over which resources, where, and the fix.

import { h, keyed, setAttr, setText, show } from './dom.js';
import { ms, taskKey } from './format.js';
import { siteCode, resourceHref, taskLink } from './parts.js';

/** Names a finding across updates: the kind and its tasks, not the times in its text. */
export const findingKey = (f) => [f.runtime, f.kind, ...f.tasks.map(taskKey), ...f.sites.map((p) => p.at)].join(' ');

const CERTAINTY = {
  proven: ['proven', 'Proven: nothing in the process except an abort can end it, or it has already happened.'],
  suspected: ['suspected', 'Suspected: it rests on an assumption, which the report states, or it may end by itself.'],
};

/** The tasks of a finding, each with its sites. */
function byTask(f) {
  const rows = new Map(f.tasks.map((task) => [taskKey(task), { task, sites: [] }]));
  for (const p of f.sites) {
    const key = p.task ? taskKey(p.task) : '';
    if (!rows.has(key)) rows.set(key, { task: p.task, sites: [] });
    rows.get(key).sites.push(p);
  }
  // Acquired resources come before those that the task waits for.
  const order = ({ what }) => (what.startsWith('wait') ? 1 : 0);
  for (const { sites } of rows.values()) sites.sort((a, b) => order(a) - order(b));
  return [...rows.values()];
}

function taskRow() {
  const who = taskLink();
  const list = h('span', { class: 'at-list' });
  const row = h('div', { class: 'at' }, who, list);
  row.update = ({ task, sites }) => {
    show(who, !!task);
    if (task) who.update(task);
    keyed(
      list,
      sites.slice(0, 6),
      (p) => `${p.what} ${p.at}`,
      () => {
        const what = h('span', { class: 'label' });
        const at = siteCode('');
        const part = h('span', { class: 'nowrap' }, what, at);
        part.update = (p) => {
          setText(what, `${p.what} at `);
          at.update(p.at);
        };
        return part;
      },
    );
  };
  return row;
}

/** A card for a finding. `isOpen(key)` and `setOpen(key, open)` keep the full text open. */
export function findingCard(isOpen = () => false, setOpen = () => {}) {
  const kind = h('span', { class: 'kind' });
  const certainty = h('span', { class: 'certainty' });
  const age = h('span', { class: 'quiet age' });
  const headline = h('h3');
  const tasks = h('div', { class: 'sites' });
  const resources = h('span', { class: 'links' });
  const resourcesRow = h('div', {}, h('span', { class: 'label', text: 'over ' }), resources);
  const help = h('p', { class: 'help' });
  const message = h('pre', { tabindex: '0' });
  const details = h('details', {}, h('summary', { text: 'Full report' }), message);
  const node = h(
    'article',
    { class: 'finding', tabindex: '-1', 'data-item': '' },
    h('div', { class: 'finding-head' }, kind, certainty, age),
    headline,
    tasks,
    resourcesRow,
    help,
    details,
  );
  let key = null;
  details.addEventListener('toggle', () => setOpen(key, details.open));
  node.update = (f) => {
    if (key === null) {
      key = findingKey(f);
      details.open = isOpen(key);
    }
    setText(kind, f.kind.replaceAll('_', ' '));
    const [word, meaning] = CERTAINTY[f.certainty] || [f.certainty, ''];
    setText(certainty, word);
    setAttr(certainty, 'title', meaning);
    setAttr(node, 'data-certainty', f.certainty);
    setText(age, f.age_ms === null ? 'now' : f.age_ms < 1000 ? 'just now' : `${ms(f.age_ms)} ago`);
    setText(headline, f.headline.replace(/^[a-z_ ]+( \((proven|suspected)\))?: /, ''));
    keyed(tasks, byTask(f).slice(0, 12), ({ task }) => (task ? taskKey(task) : ''), taskRow);
    show(resourcesRow, f.resources.length);
    keyed(
      resources,
      f.resources,
      (r) => r.id,
      () => {
        const a = h('a', { class: 'resource-link' });
        a.update = (r) => {
          setText(a, `${r.kind} ${r.label}`);
          setAttr(a, 'href', resourceHref(f.runtime, r));
        };
        return a;
      },
    );
    const fix = (f.message.match(/^\s*fix: (.*)$/m) || [])[1];
    show(help, !!fix);
    setText(help, fix ? `Fix: ${fix}` : '');
    setText(message, f.message);
  };
  return node;
}
