// Numbers, durations and sites as text. Every number has its unit.

const THIN = '\u202f';
const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

const isNumber = (n) => typeof n === 'number' && Number.isFinite(n);
/** Three significant digits. */
const digits = (n) => (n >= 99.95 ? grouped.format(n) : n >= 9.995 ? n.toFixed(1) : n.toFixed(2));

/** The placeholder for an unknown value. */
const NONE = '–';

/** A whole number with thousands separators. */
export const count = (n) => (isNumber(n) ? grouped.format(Math.round(n)) : NONE);

/** A count with its noun: "1 task", "2 tasks". */
export const plural = (n, one, many = `${one}s`) => `${count(n)}\u00a0${Math.round(n) === 1 ? one : many}`;

/** Splits a duration in ms into number and unit. */
export function parts(ms) {
  if (!isNumber(ms)) return [NONE, ''];
  if (ms < 0) ms = 0;
  if (ms === 0) return ['0', 'ms'];
  if (ms < 0.001) return [digits(ms * 1e6), 'ns'];
  if (ms < 0.9995) return [digits(ms * 1e3), 'µs'];
  if (ms < 999.5) return [digits(ms), 'ms'];
  const s = ms / 1000;
  if (s < 119.5) return [digits(s), 's'];
  if (s < 7200) return [`${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, '0')}`, 'min'];
  if (s < 172800) return [`${Math.floor(s / 3600)}:${String(Math.floor((s % 3600) / 60)).padStart(2, '0')}`, 'h'];
  return [digits(s / 86400), 'd'];
}

/** A duration in ms as text. */
export function ms(value) {
  let [number, unit] = parts(value);
  if (number.includes('.')) number = number.replace(/\.?0+$/, '');
  return unit ? number + THIN + unit : number;
}

/** A duration in µs as text. */
export const us = (value) => ms(isNumber(value) ? value / 1000 : null);

/** A time in µs on an axis with ticks `step` µs apart: with enough decimals to distinguish two ticks. */
export function timeAt(at, step) {
  const [size, unit] = [[1e6, 's'], [1e3, 'ms']].find(([size]) => Math.max(at, step) >= size) || [1, 'µs'];
  return `${(at / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)))}${THIN}${unit}`;
}

/** A duration in µs as ms, where it is known. */
export const toMs = (value) => (isNumber(value) ? value / 1000 : null);

/** A share between 0 and 1 as a percentage. */
export const percent = (share) =>
  isNumber(share) ? `${(share * 100).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}${THIN}%` : NONE;

/** A rate per second. */
export const perSecond = (n) => (isNumber(n) ? `${n < 10 && n % 1 ? n.toFixed(1) : count(n)}/s` : NONE);

/** A change per minute, with its sign. */
export function growth(n) {
  if (!isNumber(n)) return NONE;
  const size = Math.abs(n) < 10 && n % 1 ? Math.abs(n).toFixed(1) : count(Math.abs(n));
  return `${n > 0 ? '+' : n < 0 ? '−' : ''}${size}/min`;
}

/** The clock time of a date. */
export const clock = (date) => date.toLocaleTimeString('en-GB');

/**
 * A site in at most about `most` characters: folders at its start are left out, never the file and line. Of a
 * crate from the registry, the crate's name stays.
 */
export function shortSite(site, most = 40) {
  if (!site) return 'unknown site';
  const crate = site.match(/\/(?:registry\/src\/[^/]+|git\/checkouts)\/(.+)$/);
  const parts = (crate ? crate[1] : site).split('/');
  const kept = crate ? parts.splice(0, 1) : [];
  let isCut = false;
  const text = () => [...kept, ...(isCut ? ['…'] : []), ...parts].join('/');
  while (parts.length > 1 && text().length > most) {
    parts.shift();
    isCut = true;
  }
  return text();
}

/** A quoted name, cut where it would fill the line; the `title` has all of it. */
const quoted = (name) => (name ? ` "${name.length > 60 ? `${name.slice(0, 59)}…` : name}"` : '');

/** The label of a task: `task 7 "reader"`, or `block_on "main"`. */
export const taskName = (task) =>
  (task.id === null || task.id === undefined ? 'block_on' : `task ${task.id}`) + quoted(task.name);

/** How a task is addressed in URLs: `t7`, or `b1` for the future of a `block_on`. */
export const taskKey = (task) => (task.id === null || task.id === undefined ? `b${task.block_on}` : `t${task.id}`);

/** The median of the known values. */
export function median(values) {
  const sorted = values.filter(isNumber).sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : null;
}

/**
 * Returns whether a value stands out among its peers: at least four times their median.
 * Relative to the program, so that no fixed limit is needed. Needs three peers.
 */
export function standsOut(value, peers) {
  if (!isNumber(value) || peers.filter(isNumber).length < 3) return false;
  const middle = median(peers);
  return middle > 0 && value >= 4 * middle;
}
