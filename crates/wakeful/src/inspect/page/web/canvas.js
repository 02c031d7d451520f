// Draws a recording on a canvas: a row per worker, polls, sleep, marks and wake arrows.

import { timeAt } from './format.js';
import { lowerBound, SERIES } from './trace.js';

const GUTTER = 84;
const RULER = 24;
const TOP = 5;
const MAX_ARROWS = 250;
const SIGNS = { spawn: '▾', wake: '●', steal: '◆', report: '!' };

/** The label of a poll: its letter, its task, its name. */
export function labelOf(model, slice) {
  const name = model.tasks[slice.task]?.name;
  const task = slice.task === null ? 'block_on' : `task ${slice.task}`;
  return [slice.site.letter, task, name].filter(Boolean).join(' ');
}

/**
 * Makes the painter of a canvas. Its `scene` is `{model, view, chosen, hover, lit}`: the recording, the times
 * that are visible, the chosen slice, the slice below the pointer, and the spawn site shown alone.
 */
export function createPainter(canvas) {
  let scene = null;
  let colours = null;
  let context = null;
  let width = 0;
  let rowHeight = 46;
  let barHeight = 24;

  const plotWidth = () => Math.max(1, canvas.clientWidth - GUTTER);
  const perPixel = () => (scene.view.to - scene.view.from) / plotWidth();
  const xOf = (at) => GUTTER + (at - scene.view.from) / perPixel();
  const topOf = (row) => RULER + row * rowHeight + TOP;

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    colours = {
      ink: read('--ink'),
      quiet: read('--ink-2'),
      line: read('--line'),
      accent: read('--accent'),
      stuck: read('--stuck'),
      on: read('--on-series'),
      font: getComputedStyle(document.body).fontFamily,
      series: Array.from({ length: SERIES + 1 }, (_, i) => read(`--series-${i}`)),
    };
  }

  /** Fits the canvas to its box and the screen's pixels. */
  function resize() {
    const rows = scene.model.rows.length;
    // Few workers get higher rows.
    barHeight = rows <= 4 ? 38 : rows <= 8 ? 30 : 24;
    rowHeight = barHeight + 22;
    width = canvas.parentElement.clientWidth;
    const height = RULER + rows * rowHeight + 4;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${colours.font}`;
    context.textBaseline = 'middle';
    return height;
  }

  function drawRuler(height) {
    const { from, to } = scene.view;
    const rough = perPixel() * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = Math.round(xOf(t));
      context.fillStyle = colours.line;
      context.fillRect(x, RULER - 6, 1, height - RULER + 6);
      context.fillStyle = colours.quiet;
      if (x < width - 70) context.fillText(timeAt(t, step), x + 4, RULER / 2);
    }
  }

  function drawSlice(slice, top) {
    const left = Math.max(GUTTER, xOf(slice.at));
    const wide = Math.max(1, Math.min(width, xOf(slice.at + slice.took)) - left);
    context.globalAlpha = scene.lit && slice.site !== scene.lit ? 0.18 : 1;
    context.fillStyle = colours.series[slice.site.series];
    context.fillRect(left, top, wide, barHeight);
    if (wide > 16) {
      context.save();
      context.beginPath();
      context.rect(left, top, wide - 2, barHeight);
      context.clip();
      context.fillStyle = colours.on;
      context.fillText(
        wide > 70 ? labelOf(scene.model, slice) : slice.site.letter,
        left + 5,
        top + barHeight / 2 + 0.5,
      );
      context.restore();
    }
    context.globalAlpha = 1;
    if (slice === scene.chosen || slice === scene.hover) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(left, top - 1, Math.max(3, wide), barHeight + 2);
    }
  }

  function drawSlices(row, first, end, top) {
    let drawnTo = -1;
    for (let i = first; i < end; i++) {
      const slice = row.slices[i];
      const left = Math.max(GUTTER, xOf(slice.at));
      const right = Math.min(width, xOf(slice.at + slice.took));
      if (slice.kind === 'park') {
        context.fillStyle = colours.line;
        if (right - left >= 1) context.fillRect(left, top + barHeight / 2 - 1, right - left, 2);
      } else if (right > drawnTo) {
        // A poll inside a pixel that is painted already is not visible.
        drawSlice(slice, top);
        drawnTo = Math.max(right, left + 1);
      }
    }
  }

  /** Draws many polls in aggregate: the share of each site in every two pixels. */
  function drawShares(row, first, end, top) {
    const { from, to } = scene.view;
    const columns = Math.ceil(plotWidth() / 2);
    const perColumn = (to - from) / columns;
    const shares = new Float64Array(columns * (SERIES + 1));
    for (let i = first; i < end; i++) {
      const { at, took, site, kind } = row.slices[i];
      if (kind !== 'poll' || (scene.lit && site !== scene.lit)) continue;
      const last = Math.min(at + took, to);
      let start = Math.max(at, from);
      for (let column = Math.floor((start - from) / perColumn); start < last && column < columns; column++) {
        const next = Math.min(last, from + (column + 1) * perColumn);
        shares[column * (SERIES + 1) + site.series] += Math.max(0, next - start);
        start = Math.max(next, start);
      }
    }
    for (let column = 0; column < columns; column++) {
      let bottom = top + barHeight;
      for (let series = 0; series <= SERIES; series++) {
        const share = shares[column * (SERIES + 1) + series] / perColumn;
        if (share <= 0) continue;
        // A small share stays visible.
        const high = Math.min(bottom - top, Math.max(2, barHeight * share));
        context.fillStyle = colours.series[series];
        context.fillRect(GUTTER + column * 2, bottom - high, 2, high);
        bottom -= high;
      }
    }
  }

  function drawMarks(row, top) {
    const first = lowerBound(row.marks, scene.view.from);
    const end = lowerBound(row.marks, scene.view.to);
    const isFull = end - first > plotWidth() / 14;
    let last = -20;
    context.textAlign = 'center';
    for (let i = first; i < end; i++) {
      const { kind, at } = row.marks[i];
      const x = xOf(at);
      if (kind !== 'report' && (isFull || x - last < 9)) continue;
      last = x;
      context.fillStyle = kind === 'report' ? colours.stuck : colours.quiet;
      context.fillText(SIGNS[kind] || '·', x, top + barHeight + 8);
    }
    context.textAlign = 'left';
  }

  /** Returns whether a row has too many slices to draw individually; then all rows are drawn as shares. */
  function isCrowded() {
    const { from, to } = scene.view;
    return scene.model.rows.some(({ slices }) => lowerBound(slices, to) - lowerBound(slices, from) > plotWidth() / 2);
  }

  function drawRow(row, index) {
    const top = topOf(index);
    context.fillStyle = colours.line;
    context.fillRect(0, RULER + (index + 1) * rowHeight - 1, width, 1);
    let first = lowerBound(row.slices, scene.view.from);
    // Earlier slices may reach into the view.
    while (first > 0 && row.slices[first - 1].at + row.slices[first - 1].took > scene.view.from) first--;
    const end = lowerBound(row.slices, scene.view.to);
    if (isCrowded()) drawShares(row, first, end, top);
    else drawSlices(row, first, end, top);
    drawMarks(row, top);
    context.clearRect(0, RULER + index * rowHeight, GUTTER - 1, rowHeight - 1);
    context.fillStyle = colours.ink;
    context.fillText(row.name, 0, top + barHeight / 2);
    if (scene.model.hasRuntimes) {
      context.fillStyle = colours.quiet;
      context.fillText(`runtime ${row.runtime}`, 0, top + barHeight / 2 + 15);
    }
  }

  function drawArrow(wake, poll, isOwn) {
    const isSame = poll.row === wake.row;
    const isDown = poll.row > wake.row;
    const [x1, y1] = [xOf(wake.at), topOf(wake.row) + barHeight + 8];
    const [x2, y2] = [xOf(poll.at), topOf(poll.row) + (isDown ? 0 : barHeight)];
    const bend = isSame ? 12 : (y2 - y1) / 2;
    context.strokeStyle = context.fillStyle = isOwn ? colours.accent : colours.quiet;
    context.globalAlpha = isOwn ? 1 : 0.55;
    context.lineWidth = isOwn ? 2 : 1;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1, y1 + bend, x2, y2 + (isSame ? 12 : -bend), x2, y2);
    context.stroke();
    const back = isDown ? -6 : 6;
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - 3.5, y2 + back);
    context.lineTo(x2 + 3.5, y2 + back);
    context.fill();
    context.globalAlpha = 1;
  }

  /** Draws the arrows from wake-ups to polls; if there are too many, only those of the chosen poll. */
  function drawArrows() {
    const { model, view, lit } = scene;
    const focus = scene.hover || scene.chosen;
    const seen = [];
    for (
      let i = lowerBound(model.wakes, view.from - (view.to - view.from));
      i < model.wakes.length && model.wakes[i].at <= view.to;
      i++
    ) {
      const wake = model.wakes[i];
      const poll = wake.leadsTo;
      if (poll && poll.at >= view.from && (!lit || poll.site === lit || poll === focus)) seen.push(wake);
    }
    for (const wake of seen) {
      const isOwn = wake.leadsTo === focus;
      if (isOwn || seen.length <= MAX_ARROWS) drawArrow(wake, wake.leadsTo, isOwn);
    }
  }

  return {
    plotWidth,
    /** Forgets the colours, because the theme has changed. */
    forget() {
      colours = null;
    },

    draw(next) {
      scene = next;
      if (!colours) readColours();
      const height = resize();
      drawRuler(height);
      scene.model.rows.forEach(drawRow);
      context.save();
      context.beginPath();
      context.rect(GUTTER, 0, width - GUTTER, height);
      context.clip();
      drawArrows();
      context.restore();
    },

    /** The position of a pointer in the view, from 0 to 1. */
    shareAt: (event) =>
      Math.max(0, Math.min(1, (event.clientX - canvas.getBoundingClientRect().left - GUTTER) / plotWidth())),

    /** The slice below a pointer, within three pixels; polls before sleep. */
    sliceAt(event) {
      const box = canvas.getBoundingClientRect();
      const y = event.clientY - box.top - RULER;
      const row = scene?.model.rows[Math.floor(y / rowHeight)];
      if (!row || y < 0 || event.clientX - box.left < GUTTER) return null;
      const at = scene.view.from + (event.clientX - box.left - GUTTER) * perPixel();
      const near = 3 * perPixel();
      let best = null;
      const lowest = lowerBound(row.slices, at) - 12;
      for (let i = lowerBound(row.slices, at + near) - 1; i >= 0 && i > lowest; i--) {
        const slice = row.slices[i];
        const isNear = slice.at - near <= at && slice.at + slice.took + near >= at;
        if (isNear && (!best || (best.kind === 'park' && slice.kind === 'poll'))) best = slice;
      }
      return best;
    },
  };
}
