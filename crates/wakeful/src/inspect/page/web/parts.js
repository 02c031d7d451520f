// Small pieces that several screens share: links, sites, states, waits, empty states.

import { h, setAttr, setText, keyed, show } from './dom.js';
import { count, ms, parts, shortSite, taskKey, taskName } from './format.js';
import { link } from './router.js';

/** A list of facts. `update(items)`: each item is a name and a text. */
export function facts(kind = '') {
  const node = h('dl', { class: `facts ${kind}` });
  const makeRow = ([name]) => {
    const value = h('dd');
    const row = h('div', {}, h('dt', { text: name }), value);
    row.update = ([, text]) => setText(value, text);
    return row;
  };
  node.update = (items) => keyed(node, items, ([name]) => name, makeRow);
  return node;
}

/** The address of a task's screen. */
export const taskHref = (task) => `#/task/${task.runtime}/${taskKey(task)}`;

/** A link to a task. */
export function taskLink(task) {
  const node = h('a', { class: 'task-link' });
  node.update = (task) => {
    setText(node, taskName(task));
    setAttr(node, 'href', taskHref(task));
    setAttr(node, 'title', `${task.name ? `"${task.name}", ` : ''}spawned at ${task.spawned_at || 'an unknown site'}`);
  };
  if (task) node.update(task);
  return node;
}

/** A source site in fixed width; the whole path is its title. */
export function siteCode(at) {
  const node = h('code', { class: 'site' });
  node.update = (at) => {
    setText(node, shortSite(at));
    setAttr(node, 'title', at);
  };
  node.update(at);
  return node;
}

/** A link to the tasks of a spawn site, which is cut to `most` characters. */
export function groupLink(at, runtime, most) {
  const node = h('a', { class: 'site' });
  node.update = (at, runtime) => {
    setText(node, shortSite(at, most));
    setAttr(node, 'title', `Tasks spawned at ${at}`);
    setAttr(node, 'href', link('tasks', { site: at, runtime }));
  };
  node.update(at, runtime);
  return node;
}

/** The label of the runtime of a group or a resource, if there are several runtimes. */
export const ofRuntime = (runtime, overview) => (overview?.runtimes.length > 1 ? ` runtime ${runtime}` : '');

/** Returns whether a resource is identified by its site alone: timers of one site count as one. */
const isBySite = ({ kind, id }) => !id || kind === 'sleep' || kind === 'timeout';

/** Names a resource across updates. */
export const resourceKey = (runtime, resource) =>
  `${runtime} ${resource.kind} ${isBySite(resource) ? resource.site : resource.id}`;

/** The address of a resource, `{kind, id, label, site}`, on the screen of resources. */
export const resourceHref = (runtime, resource) =>
  link('resources', {
    ...(isBySite(resource) ? { kind: resource.kind, q: resource.site } : { q: resource.label }),
    sel: resourceKey(runtime, resource),
  });

/** A number cell: the number ends where the unit begins, so that a column aligns. */
export function duration(value) {
  const number = h('span');
  const unit = h('span', { class: 'unit' });
  const node = h('span', { class: 'num' }, number, unit);
  node.update = (value) => {
    const [a, b] = parts(value);
    setText(number, a);
    setText(unit, b);
  };
  node.update(value);
  return node;
}

const SIGNS = { running: '▶', queued: '◔', waiting: '◌', orphan: '✕', closure: '□', ended: '■' };

/** The state of a task as a sign and a word. */
export function stateMark(task) {
  const sign = h('span', { class: 'sign', 'aria-hidden': 'true' });
  const word = h('span');
  const node = h('span', { class: 'state' }, sign, word);
  node.update = (task) => {
    const state = task.orphan ? 'orphan' : task.state;
    setText(sign, SIGNS[state] || (state.startsWith('running') ? SIGNS.running : SIGNS.waiting));
    const on = task.worker === null || task.worker === undefined ? '' : `, worker ${task.worker}`;
    setText(word, `${state}${state === 'running' ? on : ''}${task.closure ? ', closure' : ''}`);
    setAttr(node, 'data-state', state);
  };
  if (task) node.update(task);
  return node;
}

/** The holders of what a task waits for: links, each with the site where it was acquired. */
export function holders(list, others) {
  const node = h('div', { class: 'holders' });
  node.update = (list, others) => {
    const rows = list.map((holder, index) => ({
      ...holder,
      key: `${holder.task ? taskHref(holder.task) : 'thread'}@${holder.acquired_at}#${index}`,
    }));
    if (others) rows.push({ key: 'others', others: true });
    keyed(
      node,
      rows,
      (row) => row.key,
      () => {
        const words = h('span');
        const who = taskLink();
        const at = h('span');
        const where = siteCode('');
        const more = h('span', { class: 'quiet' });
        const line = h('div', { class: 'holder' }, words, ' ', who, at, where, more);
        line.update = (holder) => {
          setText(
            words,
            holder.others
              ? 'also held by others that were not recorded'
              : holder.unpolled
                ? 'granted to'
                : 'held by',
          );
          show(who, !!holder.task);
          if (holder.task) who.update(holder.task);
          if (!holder.task && !holder.others) setText(words, 'held by code outside of every task');
          setText(at, holder.acquired_at ? ', acquired at ' : '');
          show(where, !!holder.acquired_at);
          where.update(holder.acquired_at);
          setText(
            more,
            `${holder.unpolled ? ', through a future that has not been polled since' : ''}${holder.may_have_moved ? '; the guard may have been moved to another task' : ''}`,
          );
        };
        return line;
      },
    );
  };
  if (list) node.update(list, others);
  return node;
}

/** One wait of a task in full: what, where, since when, held by which task. */
export function waitBlock() {
  const lead = h('span');
  const resource = h('a', {});
  const plain = h('code', { class: 'site' });
  const site = siteCode('');
  const words = h('span', { class: 'quiet' });
  const since = h('span', { class: 'quiet' });
  const held = holders();
  const node = h(
    'li',
    { class: 'wait' },
    h('div', {}, lead, ' ', resource, plain),
    h('div', { class: 'indent' }, words, ' ', site, since),
    h('div', { class: 'indent' }, held),
  );
  node.update = (wait, runtime) => {
    setText(lead, `${wait.earlier ? 'before that, waited for' : 'waits for'} ${wait.phrase}`);
    show(resource, wait.resource && !wait.earlier);
    setText(resource, wait.resource);
    if (wait.resource)
      setAttr(
        resource,
        'href',
        resourceHref(runtime, { kind: wait.kind, label: wait.resource, id: wait.resource_id, site: wait.site }),
      );
    show(plain, wait.resource && resource.hidden);
    setText(plain, wait.resource);
    setText(words, wait.site ? wait.site_label : '');
    show(site, !!wait.site);
    site.update(wait.site);
    setText(since, `${wait.site ? ', ' : ''}for ${ms(wait.duration_ms)}${wait.certain ? '' : ' (as of its last poll)'}`);
    held.update(wait.holders || [], wait.other_holders);
  };
  return node;
}

/** The first wait of a task in one line, for tables. */
export function waitLine(waits) {
  const now = (waits || []).filter((wait) => !wait.earlier);
  if (!now.length) return waits?.length ? `before: ${waits[0].phrase}` : '';
  const first = now[0];
  const more = now.length > 1 ? ` and ${count(now.length - 1)} more` : '';
  const holder = first.holders?.[0]?.task;
  // The kind in parentheses is for the task's own screen: here the holder matters more.
  const phrase = first.phrase.replace(/ \(.*\)$/, '');
  return `${phrase}${holder ? ` held by ${taskName(holder)},` : ''}${first.resource ? (holder || first.resource.startsWith('#') ? ' ' : ', ') + first.resource : ''}${more}`;
}

/** An empty state: what would be shown here, and how to get it. */
export const empty = (title, text) =>
  h('div', { class: 'empty' }, h('p', { class: 'empty-title', text: title }), h('p', { text }));

/** A section with a heading. */
export function section(title, ...children) {
  const note = h('span', { class: 'quiet' });
  const head = h('h2', {}, h('span', { text: title }), note);
  const node = h('section', { class: 'section' }, head, ...children);
  node.note = (text) => setText(note, text);
  return node;
}

/** A row of buttons, one of which is chosen. */
export function choice(label, options, chosen) {
  const node = h('div', { class: 'choice', role: 'group', 'aria-label': label });
  for (const [value, text] of options) {
    node.append(h('button', { type: 'button', 'data-value': value, text, onclick: () => chosen(value) }));
  }
  node.update = (value) => {
    for (const button of node.children)
      setAttr(button, 'aria-pressed', button.dataset.value === value ? 'true' : 'false');
  };
  return node;
}

/** A labelled list of options that keeps its choice while its options change. */
export function select(label, changed) {
  const input = h('select', { onchange: () => changed(input.value) });
  const node = h('label', { class: 'field' }, h('span', { text: label }), input);
  let last = '';
  node.update = (options, value) => {
    const shown = options.some(([option]) => option === value) ? options : [...options, [value, value]];
    const text = JSON.stringify(shown);
    if (text !== last && document.activeElement !== input) {
      last = text;
      input.replaceChildren(...shown.map(([value, text]) => h('option', { value, text })));
    }
    if (input.value !== value) input.value = value;
  };
  return node;
}

/** The label of a runtime. */
export const runtimeName = (runtime) => `runtime ${runtime.id}${runtime.name ? ` "${runtime.name}"` : ''}`;
