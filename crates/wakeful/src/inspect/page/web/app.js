// The shell: header, screens, status line. Each screen is a module with `open(root, route, live)`, which
// returns `{route, tick, close}` and, where it has keys, `key` and `focusRows`.

import { live } from './api.js';
import { h, keyed, setAttr, setText, show } from './dom.js';
import { clock, count, ms } from './format.js';
import * as keys from './keys.js';
import * as router from './router.js';
import * as metrics from './metrics.js';
import * as now from './now.js';
import * as resources from './resources.js';
import * as task from './task.js';
import * as tasks from './tasks.js';
import * as timeline from './timeline.js';

const SCREENS = { now, tasks, task, resources, timeline, metrics };
const TITLES = {
  now: 'Now',
  tasks: 'Tasks',
  task: 'Task',
  resources: 'Resources',
  timeline: 'Timeline',
  metrics: 'Metrics',
};

const $ = (id) => document.getElementById(id);
const main = $('main');
let current = null;
let lastTask = null;
let level = null;

function dispatch(route) {
  const name = Object.hasOwn(SCREENS, route.screen) ? route.screen : 'now';
  if (name === 'task' && router.parse(location.hash).path[2]) lastTask = location.hash;
  if (current?.name === name) {
    current.screen.route(route);
  } else {
    current?.screen.close();
    main.replaceChildren();
    main.className = `screen-${name}`;
    scrollTo(0, 0);
    current = { name, screen: SCREENS[name].open(main, route, live) };
    if (live.overview) current.screen.tick(live.overview);
  }
  drawTabs();
  drawTitle();
  $('tabs').querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function drawTabs() {
  const shown = Object.keys(SCREENS).filter((name) => name !== 'task' || lastTask);
  keyed(
    $('tabs'),
    shown,
    (name) => name,
    (name) => {
      const label = h('span', { text: TITLES[name] });
      const number = h('span', { class: 'tab-count' });
      const tab = h('a', { 'data-screen': name }, label, number);
      tab.update = () => {
        setAttr(tab, 'href', name === 'task' ? lastTask : `#/${name}`);
        setAttr(tab, 'aria-current', current?.name === name ? 'page' : null);
        if (name === 'task')
          setText(label, `Task ${router.parse(lastTask).path[2].replace(/^t/, '').replace(/^b.*/, 'block_on')}`);
        const overview = live.overview;
        const found = overview?.findings.length;
        if (name === 'now') {
          setText(number, found ? count(found) : '');
          setAttr(number, 'title', `${found} findings`);
        }
        if (name === 'tasks')
          setText(number, overview ? count(overview.runtimes.reduce((sum, r) => sum + r.alive, 0)) : '');
      };
      return tab;
    },
  );
}

function drawTitle() {
  const overview = live.overview;
  const sign = overview && overview.verdict.level !== 'ok' ? '⚠ ' : '';
  const title = `${sign}${TITLES[current?.name] || ''} · ${overview?.process.program || 'wakeful'}`;
  if (document.title !== title) document.title = title;
}

const STATES = {
  connecting: 'connecting',
  live: 'live',
  paused: 'paused',
  lost: 'no connection',
  gone: 'ended',
  refused: 'not allowed',
};

function drawStatus() {
  const { state, receivedAt } = live;
  setAttr($('live'), 'data-state', state);
  setText($('live-text'), STATES[state]);
  setText($('pause'), state === 'paused' ? 'Continue' : 'Pause');
  setAttr($('pause'), 'aria-pressed', state === 'paused' ? 'true' : 'false');
  const since = receivedAt ? ` The page shows the state of ${clock(receivedAt)}.` : '';
  const wait = Math.max(0, Math.ceil((live.retryAt - Date.now()) / 1000));
  const again = wait ? ` Trying again in ${wait} s.` : ' Trying again now.';
  const text = {
    lost: `The connection to the program is lost.${since}${again}`,
    gone: `The program has ended.${since}${again}`,
    refused:
      'The program does not accept this page’s token: it was restarted. Open the URL that it printed to standard error.',
    paused: `Paused.${since}`,
  }[state];
  show($('banner'), !!text);
  setAttr($('banner'), 'data-state', state);
  setText($('banner'), text || '');
}

function tick(overview) {
  drawStatus();
  if (!overview) return;
  const { process, verdict } = overview;
  keyed(
    $('program'),
    [
      ['name', process.program],
      ['pid', `pid ${process.pid}`],
      ['up', `up ${ms(process.uptime_ms ?? process.page_uptime_ms)}`],
    ],
    (part) => part[0],
    ([part]) => {
      const node = h('span', { class: `program-${part}` });
      node.update = ([, text]) => setText(node, text);
      return node;
    },
  );
  if (verdict.level !== level) {
    if (level !== null || verdict.level !== 'ok') setText($('announce'), verdict.text);
    level = verdict.level;
  }
  drawTabs();
  drawTitle();
  current?.screen.tick(overview);
}

$('pause').addEventListener('click', () => live.togglePause());
$('skip').addEventListener('click', () => main.focus());
const theme = $('theme');
const drawTheme = () => setText(theme, window.wakefulTheme.now() === 'dark' ? 'Light' : 'Dark');
theme.addEventListener('click', () => {
  window.wakefulTheme.toggle();
  drawTheme();
});
document.addEventListener('themechange', drawTheme);
drawTheme();

keys.install({ screen: () => current?.screen, lastTask: () => lastTask, pause: () => live.togglePause() });
// The program starts to respond while the screen is built.
live.listeners.push(tick);
live.start();
router.start(dispatch);
setInterval(() => {
  if (live.state === 'lost' || live.state === 'gone') drawStatus();
}, 1000);
