// Charts as SVG: sparklines, lines over time, histograms.

import { h, svg, setAttr, setText, keyed } from './dom.js';
import { count, us } from './format.js';
import { facts } from './parts.js';

/** A line of the last minute. `update(values, max)`; the newest value is at the right. */
export function sparkline(label, points = 60, bars = false) {
  const line = svg('path', { class: bars ? 'spark-bars' : 'spark-line' });
  const node = svg(
    'svg',
    { class: 'spark', viewBox: `0 0 ${points} 20`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    line,
  );
  node.update = (values, max, text) => {
    const shown = values.slice(-points);
    const top = max || Math.max(...shown, 1);
    const x0 = points - shown.length;
    let d = '';
    shown.forEach((value, i) => {
      const y = (19 - (Math.min(value, top) / top) * 18).toFixed(1);
      if (bars) d += `M${x0 + i + 0.5} 20V${value > 0 ? Math.min(y, 18.8) : 19.7}`;
      else d += `${i ? 'L' : 'M'}${x0 + i + 0.5} ${y}`;
    });
    setAttr(line, 'd', d || 'M0 0');
    if (text) setAttr(node, 'aria-label', text);
  };
  return node;
}

/** Rounds up to a number that is easy to read. */
function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.999) * power;
}

/**
 * A value over the last minutes, with a scale, its current value and a crosshair.
 * `update(samples, seconds)`: samples are `{t, v}`, seconds the width of the window.
 */
export function timeChart(title, format, what, fixedTop = null) {
  const W = 320;
  const H = 96;
  const area = svg('path', { class: 'area' });
  const line = svg('path', { class: 'line' });
  const cross = svg('line', { class: 'cross', y1: 0, y2: H, visibility: 'hidden' });
  const plot = svg(
    'svg',
    { class: 'plot', viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', role: 'img', tabindex: '0' },
    svg('line', { class: 'grid', x1: 0, x2: W, y1: 1, y2: 1 }),
    svg('line', { class: 'grid', x1: 0, x2: W, y1: H / 2, y2: H / 2 }),
    area,
    line,
    cross,
  );
  const now = h('span', { class: 'chart-now' });
  const top = h('span', { class: 'chart-top' });
  const from = h('span');
  const hint = h('span', { class: 'quiet' });
  const node = h(
    'figure',
    { class: 'chart' },
    h('figcaption', {}, h('span', { class: 'chart-title', text: title }), now),
    h('p', { class: 'quiet', text: what }),
    h('div', { class: 'plot-box' }, top, plot),
    h('div', { class: 'chart-axis' }, from, hint, h('span', { text: 'now' })),
  );
  let shown = [];
  let span = 60;
  let at = null;
  const point = () => {
    if (at === null || !shown.length) {
      setAttr(cross, 'visibility', 'hidden');
      setText(hint, '');
      return;
    }
    const end = shown[shown.length - 1].t;
    const want = end - span * (1 - at);
    const near = shown.reduce((best, s) => (Math.abs(s.t - want) < Math.abs(best.t - want) ? s : best));
    const x = W * (1 - (end - near.t) / span);
    setAttr(cross, 'x1', x);
    setAttr(cross, 'x2', x);
    setAttr(cross, 'visibility', 'visible');
    setText(hint, `${format(near.v)}, ${Math.round(end - near.t)} s ago`);
  };
  plot.addEventListener('pointermove', (event) => {
    const box = plot.getBoundingClientRect();
    at = (event.clientX - box.left) / box.width;
    point();
  });
  plot.addEventListener('pointerleave', () => {
    at = null;
    point();
  });
  plot.addEventListener('blur', () => {
    at = null;
    point();
  });
  plot.addEventListener('keydown', (event) => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    event.preventDefault();
    at = Math.max(0, Math.min(1, (at ?? 1) + (event.key === 'ArrowLeft' ? -1 : 1) / span));
    point();
  });
  node.update = (samples, seconds) => {
    span = seconds;
    const end = samples.length ? samples[samples.length - 1].t : 0;
    shown = samples.filter((s) => s.t >= end - span && s.v !== null && s.v !== undefined);
    const most = Math.max(0, ...shown.map((s) => s.v));
    const scale = fixedTop || niceTop(most);
    let d = '';
    let before = null;
    let first = 0;
    let fill = '';
    for (const s of shown) {
      const x = (W * (1 - (end - s.t) / span)).toFixed(1);
      const y = (H - 1 - (Math.min(s.v, scale) / scale) * (H - 2)).toFixed(1);
      if (before === null || s.t - before > 5) {
        if (before !== null) fill += `V${H}H${first}Z`;
        d += `M${x} ${y}`;
        fill += `M${x} ${H}V${y}`;
        first = x;
      } else {
        d += `L${x} ${y}`;
        fill += `L${x} ${y}`;
      }
      before = s.t;
    }
    if (before !== null) fill += `V${H}H${first}Z`;
    setAttr(line, 'd', d || 'M0 0');
    setAttr(area, 'd', fill || 'M0 0');
    const last = shown.length ? shown[shown.length - 1].v : null;
    setText(now, format(last));
    setText(top, format(scale));
    setText(from, `${span >= 120 ? `${span / 60} min` : `${span} s`} ago`);
    setAttr(
      plot,
      'aria-label',
      `${title}: now ${format(last)}, at most ${format(most)} in this window. Arrow keys read earlier values.`,
    );
    point();
  };
  return node;
}

/** A histogram with power-of-two buckets, quantiles as labelled lines, and all numbers as a table. */
export function histogram(title, what) {
  const bars = h('div', { class: 'bars', role: 'img' });
  const marks = h('div', { class: 'marks' });
  const axis = h('div', { class: 'bars-axis' });
  const numbers = facts('small');
  const body = h('tbody');
  const box = h('div', { class: 'bars-box' }, marks, bars);
  const note = h('p', { class: 'quiet', text: 'Heights are logarithmic, so that rare values are seen.' });
  const none = h('p', { class: 'quiet', text: `No ${what} has been measured yet.` });
  const more = h(
    'details',
    {},
    h('summary', { text: 'As a table' }),
    h(
      'table',
      { class: 'plain' },
      h(
        'thead',
        {},
        h('tr', {}, h('th', { text: 'up to', scope: 'col' }), h('th', { class: 'r', text: 'count', scope: 'col' })),
      ),
      body,
    ),
  );
  const node = h(
    'figure',
    { class: 'chart wide' },
    h('figcaption', {}, h('span', { class: 'chart-title', text: title })),
    none,
    numbers,
    box,
    axis,
    note,
    more,
  );
  node.update = (hist, own = null) => {
    const has = hist && hist.count > 0;
    none.hidden = has;
    for (const part of [numbers, box, axis, note, more]) part.hidden = !has;
    if (!has) return;
    numbers.update(
      [
        ['values', count(hist.count)],
        ['p50', us(hist.p50_us)],
        ['p90', us(hist.p90_us)],
        ['p99', us(hist.p99_us)],
        ['longest', us(hist.max_us)],
      ],
    );
    const first = hist.buckets.findIndex(([, n]) => n > 0);
    let last = hist.buckets.length;
    while (last > first && !hist.buckets[last - 1][1]) last--;
    // Empty buckets may be left out: each is twice as long as the one before.
    const used = [];
    for (const bucket of hist.buckets.slice(first, last)) {
      for (let prior = used[used.length - 1]; prior && prior[0] * 2.5 < bucket[0]; prior = used[used.length - 1])
        used.push([prior[0] * 2, 0]);
      used.push(bucket);
    }
    const most = Math.log(1 + Math.max(...used.map(([, n]) => n)));
    keyed(
      bars,
      used,
      ([upper]) => upper,
      ([upper]) => {
        const bar = h('div', { class: 'bar' });
        bar.update = ([, n]) => {
          bar.style.height = `${n ? Math.max(2, (100 * Math.log(1 + n)) / most) : 0}%`;
          setAttr(bar, 'title', `up to ${us(upper)}: ${count(n)}`);
        };
        return bar;
      },
    );
    setAttr(
      bars,
      'aria-label',
      `${title}: half below ${us(hist.p50_us)}, 99 % below ${us(hist.p99_us)}, longest ${us(hist.max_us)}`,
    );
    const position = (value) => {
      const i = used.findIndex(([upper]) => upper >= value);
      return (100 * ((i < 0 ? used.length - 1 : i) + 1)) / used.length;
    };
    const quantiles = [['p50', hist.p50_us], ['p90', hist.p90_us], ['p99', hist.p99_us], own]
      .filter(Boolean)
      .map(([name, value]) => ({ name, at: position(value) }));
    // Each label has a line of its own, so that none covers another.
    box.style.paddingTop = `${quantiles.length * 14 + 4}px`;
    keyed(
      marks,
      quantiles.map((mark, level) => ({ ...mark, level })),
      (mark) => mark.name,
      () => {
        const mark = h('div', { class: 'mark' });
        mark.update = ({ name, at, level }) => {
          setText(mark, name);
          mark.style.left = `${at}%`;
          mark.style.top = `${level * 14}px`;
          mark.classList.toggle('left', at > 75);
        };
        return mark;
      },
    );
    const middle = used[used.length >> 1];
    keyed(
      axis,
      [
        [0, us(used[0][0])],
        [1, used.length > 4 ? us(middle[0]) : ''],
        [2, used.length > 1 ? us(used[used.length - 1][0]) : ''],
      ],
      (x) => x[0],
      () => {
        const label = h('span');
        label.update = ([, text]) => setText(label, text);
        return label;
      },
    );
    keyed(
      body,
      used.filter(([, n]) => n > 0),
      ([upper]) => upper,
      ([upper]) => {
        const value = h('td', { class: 'r' });
        const row = h('tr', {}, h('td', { text: us(upper) }), value);
        row.update = ([, n]) => setText(value, count(n));
        return row;
      },
    );
  };
  return node;
}
