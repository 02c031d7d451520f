// Screen "Task": all that is known about one task, or how it ended.

import { get, post, single } from './api.js';
import { h, keyed, setAttr, setText, show } from './dom.js';
import { histogram } from './chart.js';
import { count, ms, plural, taskKey, taskName, us } from './format.js';
import { findingCard, findingKey } from './finding.js';
import { waitGraph } from './graph.js';
import { moveItems } from './keys.js';
import { empty, groupLink, runtimeName, section, stateMark, taskHref, taskLink, waitBlock } from './parts.js';
import { link } from './router.js';

/** A list of facts whose values are elements with `update`. */
function factList(rows) {
  const node = h('dl', { class: 'facts grid' });
  for (const [name, value] of rows) node.append(h('div', {}, h('dt', { text: name }), h('dd', {}, value)));
  return node;
}

const value = () => {
  const node = h('span');
  node.update = (text) => setText(node, text);
  return node;
};

export function open(root, route, live) {
  let id = null;
  let runtimeId = null;
  let data = null;

  const title = h('h1');
  const state = stateMark();
  const abort = h('button', { type: 'button', class: 'danger', text: 'Abort task …' });
  const sure = h(
    'span',
    { class: 'confirm', hidden: true },
    h('span', { text: 'Its future is dropped, and its JoinHandle returns an error. ' }),
    h('button', { type: 'button', class: 'danger', text: 'Abort now', onclick: doAbort }),
    h('button', { type: 'button', text: 'Keep it', onclick: () => ask(false) }),
  );
  const said = h('span', { class: 'quiet', role: 'status' });
  const head = h('div', { class: 'task-head' }, title, state, h('span', { class: 'task-actions' }, said, abort, sure));
  abort.addEventListener('click', () => ask(true));

  const where = groupLink('', 1);
  const parent = taskLink();
  const noParent = h('span', { class: 'quiet' });
  const cells = { data: value(), runtime: value(), age: value(), polls: value(), busy: value(), wakes: value(), wakers: value() };
  const facts = factList([
    ['spawned at', where],
    ['spawned by', h('span', {}, parent, noParent)],
    ['data', cells.data],
    ['runtime', cells.runtime],
    ['age', cells.age],
    ['polls', cells.polls],
    ['busy', cells.busy],
    ['wakes', cells.wakes],
    ['live wakers', cells.wakers],
  ]);

  const findings = section('Findings about this task', h('div', { class: 'findings' }));
  const waits = h('ul', { class: 'waits' });
  const noWait = h('p', { class: 'quiet' });
  const waiting = section('What it waits for', noWait, waits);
  const graph = waitGraph();
  const graphs = section('Which task waits for which', graph);
  const hist = histogram('Poll times of all tasks spawned there', 'poll');
  const groupFacts = h('p', { class: 'quiet' });
  const group = section('Its group', groupFacts, hist);
  const kids = h('div', { class: 'links wrap' });
  const moreKids = h('a', {});
  const children = section('Tasks that it spawned', kids, moreKids);
  const alive = h('div', {}, facts, findings, waiting, graphs, group, children);
  const gone = h('div', { hidden: true });
  const trouble = h('p', { class: 'notice', role: 'status', hidden: true });
  const body = h('div', { hidden: true }, head, trouble, alive, gone);
  root.append(body);

  const loader = single(
    (signal) => get('task', { runtime: runtimeId, task: id }, signal),
    (answer) => {
      data = answer;
      show(trouble, false);
      draw();
    },
    (error) => {
      show(body, true);
      show(alive, !!data);
      if (!data) setText(title, `Task ${id.slice(1)}`);
      show(trouble, true);
      setText(trouble, error.message);
    },
  );

  function ask(is) {
    show(sure, is);
    show(abort, !is);
    (is ? sure.querySelector('button') : abort).focus();
  }

  async function doAbort() {
    try {
      await post('abort', { runtime: Number(runtimeId), id: data.task.id });
      setText(said, 'Abort requested.');
    } catch (error) {
      setText(said, error.message);
    }
    show(sure, false);
    show(abort, false);
    loader.run();
  }

  function drawEnded() {
    const ended = data.ended;
    const known = ended || data.task;
    setText(title, known ? taskName(known) : id.startsWith('b') ? 'block_on' : `task ${id.slice(1)}`);
    state.update({ state: ended ? 'ended' : 'not alive' });
    show(abort, false);
    show(sure, false);
    if (!ended) {
      gone.replaceChildren(
        empty(
          'This task is not alive',
          'It has ended too long ago to be among the last ended tasks, or it never existed in this process.',
        ),
        h('p', {}, h('a', { href: '#/tasks', text: 'All tasks' })),
      );
      return;
    }
    const spawned = groupLink(ended.spawned_at, ended.runtime);
    const text = (text) => h('span', { text });
    gone.replaceChildren(
      h('p', {
        class: 'notice',
        text: `This task has ended: it ${ended.outcome === 'aborted' ? 'was aborted' : ended.outcome}, ${ms(ended.ended_ms_ago)} ago.`,
      }),
      factList([
        ['spawned at', spawned],
        ['polls', text(count(ended.polls))],
        ['busy', text(ms(ended.busy_ms))],
        ['outcome', text(ended.outcome)],
      ]),
    );
  }

  function draw() {
    show(body, true);
    show(alive, data.found);
    show(gone, !data.found);
    if (!data.found) {
      drawEnded();
      return;
    }
    const { task } = data;
    setText(title, taskName(task));
    setAttr(title, 'title', task.name);
    state.update(task);
    const overview = live.overview;
    const mayAbort = overview?.process.abort_enabled && task.id !== null && !task.closure;
    if (sure.hidden && !said.textContent) show(abort, mayAbort);
    where.update(task.spawned_at, task.runtime);
    show(parent, !!task.parent);
    if (task.parent) parent.update(task.parent);
    setText(noParent, task.parent ? '' : task.id === null ? 'a thread that called block_on' : 'no task that is alive');
    const runtime = overview?.runtimes.find((r) => r.id === task.runtime) || { id: task.runtime };
    cells.data.update(task.data ?? 'none');
    cells.runtime.update(runtimeName(runtime));
    cells.age.update(ms(task.age_ms));
    cells.polls.update(count(task.polls));
    cells.busy.update(ms(task.busy_ms));
    cells.wakes.update(count(task.wakes));
    cells.wakers.update(task.wakers === 0 && task.state === 'waiting' ? '0: nothing can wake it' : count(task.wakers));

    show(findings, data.findings.length);
    keyed(findings.lastElementChild, data.findings, findingKey, () => findingCard());

    const all = task.waits || [];
    show(noWait, !all.length);
    setText(
      noWait,
      task.state === 'running'
        ? `It runs${task.worker === null ? '' : ` on worker ${task.worker}`} and waits for nothing.`
        : task.state === 'queued'
          ? 'It is runnable and waits for a worker.'
          : task.orphan
            ? 'No waker for it exists, and it waits in a future that is not wakeful’s own.'
            : 'It waits in a future that is not wakeful’s own.',
    );
    keyed(
      waits,
      all,
      (wait) => `${wait.kind} ${wait.resource_id} ${wait.site} ${wait.earlier}`,
      () => {
        const block = waitBlock();
        const set = block.update;
        block.update = (wait) => set(wait, task.runtime);
        return block;
      },
    );

    const has = data.graph && data.graph.edges.length > 0;
    show(graphs, has);
    if (has) {
      graphs.note(data.graph.cycle?.length ? 'a cycle' : '');
      const own = data.graph.nodes.find((node) => node.kind === 'task' && taskHref(node.task) === taskHref(task));
      graph.update({ ...data.graph, cycle: data.graph.cycle || [] }, own?.key, task.runtime);
    }

    show(group, !!data.group);
    if (data.group) {
      const g = data.group;
      // Polls are timed by samples, so those of a young group may have no time yet.
      const mean = task.polls && task.busy_ms ? (1000 * task.busy_ms) / task.polls : null;
      const texts = [
        `${plural(g.alive, 'task')} alive of ${count(g.started)} started there.`,
        mean === null ? '' : `Mean poll of this task ${us(mean)}.`,
        g.poll_p99_us === null ? 'No poll was timed yet.' : `Polls p50 ${us(g.poll_p50_us)}, p99 ${us(g.poll_p99_us)}.`,
        g.wait_p99_ms === null ? '' : `Waits p50 ${ms(g.wait_p50_ms)}, p99 ${ms(g.wait_p99_ms)}.`,
      ];
      setText(groupFacts, texts.filter(Boolean).join(' '));
      show(hist, !!g.poll);
      if (g.poll) hist.update(g.poll, mean ? ['this task, mean', mean] : null);
    }

    show(children, task.children > 0);
    children.note(count(task.children));
    keyed(kids, data.children, taskKey, taskLink);
    show(moreKids, task.children > data.children.length);
    setText(moreKids, `All ${count(task.children)} in the tree`);
    setAttr(
      moreKids,
      'href',
      link('tasks', { mode: 'tree', runtime: task.runtime, open: `${task.runtime}.${taskKey(task)}` }),
    );
  }

  function setRoute({ path }) {
    if (path[1] === runtimeId && path[2] === id) return;
    [, runtimeId, id] = path;
    id ??= '';
    data = null;
    show(body, false);
    show(sure, false);
    setText(said, '');
    root.scrollIntoView?.({ block: 'start' });
    scrollTo(0, 0);
    loader.restart();
  }

  setRoute(route);
  return {
    route: setRoute,
    tick() {
      if (!data || data.found) loader.run();
    },
    key: (event) => moveItems(root, event),
    close() {
      loader.cancel();
    },
  };
}
