// Screen "Metrics": rates, depths and histograms, with minutes of history.

import { get, single } from './api.js';
import { h, keyed, setText, show } from './dom.js';
import { histogram, timeChart } from './chart.js';
import { count, percent, perSecond, plural, us } from './format.js';
import { follow, samples } from './history.js';
import { choice, empty, facts, runtimeName, section } from './parts.js';
import { amend } from './router.js';

const mean = (list) => (list?.length ? list.reduce((sum, n) => sum + n, 0) / list.length : null);
const zero = (value) => value ?? 0;

/** The charts: title, format, meaning of the value, how to read it from a sample, top of its scale. */
const CHARTS = [
  ['Workers busy', percent, 'share of time in polls, mean of workers', (s) => mean(s.busy), 1],
  ['Polls', perSecond, 'polls of tasks per second', (s) => s.polls],
  ['Tasks alive', count, 'spawned and not ended', (s) => s.alive],
  ['Spawns', perSecond, 'tasks spawned per second', (s) => s.spawned],
  ['Poll time p99', us, 'of the polls of that second', (s) => s.poll_p99_us],
  ['Wake-up to poll p99', us, 'time that a woken task is queued', (s) => s.wake_p99_us],
  ['Queue depth', count, 'runnable tasks that wait for a worker', (s) => s.queued],
  ['Blocking threads', count, 'threads of spawn_blocking', (s) => zero(s.blocking)],
];

function runtimePart() {
  const charts = CHARTS.map(([title, format, what, of, top]) => ({ chart: timeChart(title, format, what, top), of }));
  const poll = histogram('Poll time', 'poll');
  const wake = histogram('Wake-up to poll', 'wake-up');
  const counts = facts();
  const node = section(
    '',
    h(
      'div',
      { class: 'charts' },
      charts.map(({ chart }) => chart),
    ),
    h('div', { class: 'charts two' }, poll, wake),
    counts,
  );
  node.update = ({ runtime, metrics, span }) => {
    setText(node.querySelector('h2 > span'), `R${runtimeName(runtime).slice(1)}, ${runtime.flavor}`);
    const past = samples(runtime.id);
    for (const { chart, of } of charts)
      chart.update(
        past.map((s) => ({ t: s.t, v: of(s) })),
        span,
      );
    if (!metrics) return;
    poll.update(metrics.poll);
    wake.update(metrics.wake);
    const items = [
      ['steals', count(metrics.steals)],
      ['parks', count(metrics.parks)],
      ['tasks panicked', count(metrics.panicked)],
      ...metrics.reports.map((r) => [`reports: ${r.kind.replaceAll('_', ' ')}`, count(r.count)]),
    ];
    counts.update(items);
  };
  return node;
}

export function open(root, route) {
  let overview = null;
  let metrics = new Map();
  let span = 60;
  const spans = choice(
    'Window',
    [
      ['60', '1 min'],
      ['300', '5 min'],
      ['600', '10 min'],
    ],
    (value) => amend({ span: value === '60' ? '' : value }, true),
  );
  const note = h('span', { class: 'quiet matched' });
  const none = empty(
    'No runtime is alive',
    'Rates, depths and histograms of each runtime are shown here. The program keeps the last ten minutes, also while no page is open.',
  );
  const host = h('div');
  root.append(
    h('h1', { class: 'unseen', text: 'Metrics' }),
    h(
      'div',
      { class: 'bar' },
      spans,
      note,
      h('a', {
        class: 'button',
        href: '/metrics',
        target: '_blank',
        rel: 'noopener',
        text: 'For Prometheus: /metrics',
      }),
    ),
    none,
    host,
  );
  const past = follow(draw);
  const loader = single(
    (signal) => get('metrics', {}, signal),
    ({ runtimes }) => {
      metrics = new Map(runtimes.map((r) => [r.id, r]));
      draw();
    },
  );

  function draw() {
    if (!overview) return;
    show(none, !overview.runtimes.length);
    keyed(
      host,
      overview.runtimes.map((runtime) => ({ runtime, metrics: metrics.get(runtime.id), span })),
      ({ runtime }) => runtime.id,
      runtimePart,
    );
    const kept = Math.max(0, ...overview.runtimes.map((r) => samples(r.id).length));
    setText(note, kept ? `${plural(kept, 'sample')} kept, one a second` : '');
  }

  function setRoute({ params }) {
    span = [60, 300, 600].includes(Number(params.get('span'))) ? Number(params.get('span')) : 60;
    spans.update(String(span));
    draw();
  }
  setRoute(route);
  return {
    route: setRoute,
    tick(data) {
      overview = data;
      past.tick();
      loader.run();
      draw();
    },
    close() {
      past.close();
      loader.cancel();
    },
  };
}
