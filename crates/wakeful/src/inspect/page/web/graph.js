// The graph of which task waits for which resource, held by which task.
//
// A cycle is drawn as a ring, so that it is seen at once. Nodes that lead to it are in layers before it, nodes
// behind it in layers after it. Without a cycle, the task of the screen is in the middle. On narrow screens the
// layers are rows, otherwise columns.

import { h, keyed, setAttr, setText, svg } from './dom.js';
import { ms, shortSite, taskName } from './format.js';
import { siteCode, resourceHref, taskHref } from './parts.js';

const HEIGHT = 46;
const MAX_PER_LAYER = 10;

/** The distance of each node from the start nodes, along `next`. */
function distances(starts, next) {
  const found = new Map(starts.map((key) => [key, 0]));
  for (const key of found.keys()) {
    for (const to of next(key)) if (!found.has(to)) found.set(to, found.get(key) + 1);
  }
  return found;
}

/** Gives every node a position: `{x, y}` of its centre. Crowded layers are cut; returns what was left out. */
function layout(graph, focus, isNarrow, width) {
  const out = new Map(graph.nodes.map((node) => [node.key, []]));
  const into = new Map(graph.nodes.map((node) => [node.key, []]));
  for (const { from, to } of graph.edges) {
    out.get(from)?.push(to);
    into.get(to)?.push(from);
  }
  // The ring is turned so that edges from outside reach it where it begins.
  const inRing = new Set(graph.cycle);
  const entry = Math.max(
    0,
    graph.cycle.findIndex((key) => into.get(key).some((from) => !inRing.has(from))),
  );
  const cycle = [...graph.cycle.slice(entry), ...graph.cycle.slice(0, entry)];
  const hasEntry = graph.nodes.length > cycle.length;
  const at = new Map();
  const hidden = new Map();
  const rx = cycle.length ? Math.max(isNarrow ? 104 : width * 1.02, (cycle.length * width) / 5) : 0;
  const ry = cycle.length ? Math.max(100, cycle.length * 24) : 0;
  cycle.forEach((key, i) => {
    const angle = (isNarrow && hasEntry ? -Math.PI / 2 : Math.PI) + (2 * Math.PI * i) / cycle.length;
    at.set(key, { x: rx * Math.cos(angle), y: ry * Math.sin(angle), angle });
  });

  const starts = cycle.length ? cycle : [focus];
  const before = distances(starts, (key) => into.get(key) || []);
  const behind = distances(starts, (key) => out.get(key) || []);
  const layers = new Map();
  for (const { key } of graph.nodes) {
    if (at.has(key)) continue;
    const layer = before.has(key) ? -before.get(key) : behind.has(key) ? behind.get(key) : -1;
    layers.set(layer, [...(layers.get(layer) || []), key]);
  }
  const edge = isNarrow ? ry + HEIGHT / 2 : rx + width / 2;
  for (const [layer, keys] of layers) {
    // The neighbours' order keeps edges from crossing where that is cheap.
    keys.sort((a, b) => (out.get(a)[0] || '').localeCompare(out.get(b)[0] || ''));
    const shown = keys.slice(0, MAX_PER_LAYER);
    if (keys.length > shown.length) {
      const more = keys.splice(MAX_PER_LAYER - 1);
      shown.pop();
      more.forEach((key) => hidden.set(key, `more${layer}`));
      shown.push(`more${layer}`);
      hidden.set(`more${layer}`, more.length);
    }
    shown.forEach((key, i) => {
      const across = (i - (shown.length - 1) / 2) * (isNarrow ? width + 24 : HEIGHT + 26);
      const step = isNarrow ? HEIGHT + 50 : width + 130;
      const ring = cycle.length ? edge - (isNarrow ? HEIGHT / 2 : width / 2) : 0;
      const along = layer === 0 ? 0 : Math.sign(layer) * ring + layer * step;
      at.set(key, isNarrow ? { x: across, y: along } : { x: along, y: across });
    });
  }
  return { at, hidden, rx, ry, cycle };
}

const isInside = (point, centre, width, margin) =>
  Math.abs(point.x - centre.x) < width / 2 + margin && Math.abs(point.y - centre.y) < HEIGHT / 2 + margin;

/** The points of an edge: along the ring between neighbours of the cycle, otherwise straight. */
function route(from, to, ring, width) {
  const points = [];
  for (let i = 0; i <= 60; i++) {
    const f = i / 60;
    if (ring) {
      const angle = ring.from + (ring.to - ring.from) * f;
      points.push({ x: ring.rx * Math.cos(angle), y: ring.ry * Math.sin(angle) });
    } else {
      points.push({ x: from.x + (to.x - from.x) * f, y: from.y + (to.y - from.y) * f });
    }
  }
  return points.filter((point) => !isInside(point, from, width, 2) && !isInside(point, to, width, 5));
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function drawNode(node, at, width, { focus, inCycle, runtime, site }) {
  const x = at.x - width / 2;
  const y = at.y - HEIGHT / 2;
  const isTask = node.kind === 'task';
  const most = Math.floor((width - (isTask ? 14 : 30)) / 7.7);
  const isFocus = node.key === focus;
  const label = isTask ? '' : node.label.replace(`${node.wait} `, '');
  const title = isTask ? taskName(node.task) : label;
  const below = isTask ? (isFocus ? `this task, ${node.state}` : node.state || '') : node.wait || 'resource';
  const shape = isTask
    ? svg('rect', { x, y, width, height: HEIGHT, rx: 7 })
    : svg('path', {
        d: `M${x + 12} ${y}h${width - 24}l12 ${HEIGHT / 2}l-12 ${HEIGHT / 2}h${24 - width}l-12 ${-HEIGHT / 2}Z`,
      });
  const [, id] = node.key.match(/(\d+)$/) || [];
  const href = isTask ? taskHref(node.task) : resourceHref(runtime, { kind: node.wait, label, id, site });
  return svg(
    'a',
    { class: `node ${node.kind}${inCycle ? ' in-cycle' : ''}${isFocus ? ' is-focus' : ''}`, href },
    svg('title', { text: isTask ? `${title}, spawned at ${node.task.spawned_at || 'an unknown site'}` : node.label }),
    shape,
    svg('text', { class: 'node-title', x: at.x, y: at.y - 3, text: cut(title, most) }),
    svg('text', { class: 'node-below', x: at.x, y: at.y + 13, text: cut(below, most + 3) }),
  );
}

function draw(graph, focus, isNarrow, runtime) {
  const width = isNarrow ? 134 : 172;
  const { at, hidden, rx, ry, cycle } = layout(graph, focus, isNarrow, width);
  const edges = svg('g');
  const nodes = svg('g');
  const seen = new Set();
  for (const edge of graph.edges) {
    const ends = [edge.from, edge.to].map((key) => (typeof hidden.get(key) === 'string' ? hidden.get(key) : key));
    if (seen.has(ends.join()) || !at.has(ends[0]) || !at.has(ends[1])) continue;
    seen.add(ends.join());
    const [from, to] = ends.map((key) => at.get(key));
    const i = cycle.indexOf(edge.from);
    const onRing = i >= 0 && cycle[(i + 1) % cycle.length] === edge.to;
    const ring = onRing ? { from: from.angle, to: from.angle + (2 * Math.PI) / cycle.length, rx, ry } : null;
    const points = route(from, to, ring, width);
    if (points.length < 2) continue;
    const middle = points[points.length >> 1];
    const out = ring ? 1.1 : 1;
    const label = { x: middle.x * out, y: ring ? middle.y * out + Math.sign(middle.y) * 7 + 4 : middle.y - 6 };
    const words = edge.what + (edge.duration_ms > 0 ? ` ${ms(edge.duration_ms)}` : '');
    const last = points[points.length - 1];
    const prior = points[Math.max(0, points.length - 4)];
    const turn = Math.atan2(last.y - prior.y, last.x - prior.x);
    const corner = (side) => `${last.x - 9 * Math.cos(turn + side)} ${last.y - 9 * Math.sin(turn + side)}`;
    edges.append(
      svg(
        'g',
        { class: `edge${onRing ? ' in-cycle' : ''}${edge.what === 'held by' ? ' holds' : ''}` },
        svg('title', { text: `${edge.what}${edge.at ? ` at ${edge.at}` : ''}` }),
        svg('path', { d: `M${points.map((p) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join('L')}` }),
        svg('path', { class: 'head', d: `M${last.x} ${last.y}L${corner(0.42)}L${corner(-0.42)}Z` }),
        svg('text', {
          x: label.x.toFixed(1),
          y: label.y.toFixed(1),
          text: words,
          'data-edge': `${edge.from} ${edge.to}`,
        }),
      ),
    );
  }
  for (const node of graph.nodes)
    if (at.has(node.key))
      nodes.append(
        drawNode(node, at.get(node.key), width, {
          focus,
          runtime,
          inCycle: cycle.includes(node.key),
          site: graph.edges.find((edge) => edge.to === node.key)?.at,
        }),
      );
  for (const [key, many] of hidden) {
    const where = at.get(key);
    if (where && typeof many === 'number')
      nodes.append(svg('text', { class: 'node-below', x: where.x, y: where.y + 4, text: `and ${many} more` }));
  }
  if (cycle.length) {
    const tasks = cycle.filter((key) => graph.nodes.find((node) => node.key === key)?.kind === 'task').length;
    const lines =
      tasks === 1
        ? ['it waits for', 'itself']
        : isNarrow
          ? [`${tasks} tasks`, 'wait for', 'each other']
          : [`${tasks} tasks`, 'wait for each other'];
    nodes.append(
      ...lines.map((text, i) => svg('text', { class: 'cycle-name', x: 0, y: i * 17 + 12 - lines.length * 8, text })),
    );
  }
  const xs = [...at.values()].map((p) => p.x).concat(-rx * 0.8, rx * 0.8);
  const ys = [...at.values()].map((p) => p.y).concat(-ry, ry);
  const left = Math.min(...xs) - width / 2 - 8;
  const top = Math.min(...ys) - HEIGHT / 2 - 22;
  const wide = Math.max(...xs) + width / 2 + 8 - left;
  const high = Math.max(...ys) + HEIGHT / 2 + 22 - top;
  const picture = svg(
    'svg',
    {
      viewBox: `${left} ${top} ${wide} ${high}`,
      width: Math.round(wide),
      height: Math.round(high),
      role: 'group',
      'aria-label': cycle.length
        ? 'Graph with a cycle; the list below has the same data'
        : 'Graph; the list below has the same data',
    },
    edges,
    nodes,
  );
  return picture;
}

/** The graph with its list in words. `update(graph, focus, runtime)` redraws only if the graph has changed. */
export function waitGraph() {
  const box = h('div', { class: 'graph' });
  const list = h('ol', { class: 'chain' });
  const node = h('div', {}, box, list);
  let last = '';
  let shown = null;
  const redraw = () => {
    if (!shown) return;
    const isNarrow = node.clientWidth > 0 && node.clientWidth < 620;
    const sign = JSON.stringify([
      shown.graph.nodes,
      shown.graph.edges.map((e) => [e.from, e.to, e.what, e.at]),
      shown.graph.cycle,
      shown.focus,
      isNarrow,
    ]);
    if (sign !== last) {
      last = sign;
      const had = box.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
      box.replaceChildren(draw(shown.graph, shown.focus, isNarrow, shown.runtime));
      if (had)
        [...box.querySelectorAll('a')].find((a) => a.getAttribute('href') === had)?.focus({ preventScroll: true });
    } else {
      for (const text of box.querySelectorAll('[data-edge]')) {
        const edge = shown.graph.edges.find((e) => `${e.from} ${e.to}` === text.dataset.edge);
        if (edge?.duration_ms > 0) setText(text, `${edge.what} ${ms(edge.duration_ms)}`);
      }
    }
  };
  new ResizeObserver(redraw).observe(node);
  node.update = (graph, focus, runtime) => {
    shown = { graph, focus, runtime };
    redraw();
    const nameOf = (key) => {
      const found = graph.nodes.find((one) => one.key === key);
      return found?.kind === 'task' ? taskName(found.task) : found?.label || key;
    };
    // The cycle first, in its order.
    const rank = (edge) => {
      const i = graph.cycle.indexOf(edge.from);
      return i < 0 ? graph.cycle.length : i;
    };
    keyed(
      list,
      [...graph.edges].sort((a, b) => rank(a) - rank(b)).slice(0, 40),
      (edge) => `${edge.from} ${edge.to} ${edge.what}`,
      () => {
        const words = h('span');
        const at = siteCode('');
        const after = h('span', { class: 'quiet' });
        const item = h('li', {}, words, at, after);
        item.update = (edge) => {
          setText(
            words,
            `${nameOf(edge.from)} ${edge.what === 'held by' ? 'is held by' : edge.what} ${nameOf(edge.to)}${edge.at ? (edge.what === 'held by' ? ', acquired at ' : ', at ') : ''}`,
          );
          setText(at, edge.at ? shortSite(edge.at) : '');
          setAttr(at, 'title', edge.at);
          setText(after, edge.duration_ms > 0 ? `, for ${ms(edge.duration_ms)}` : '');
        };
        return item;
      },
    );
  };
  return node;
}
