// The ring of samples that the program keeps, one a second, including samples from before the page was opened.

import { get, single } from './api.js';

const KEEP = 600;
const byRuntime = new Map();

/** The samples of a runtime, oldest first. */
export const samples = (runtime) => byRuntime.get(runtime) || [];

const newest = () => Math.max(0, ...[...byRuntime.values()].map((all) => (all.length ? all[all.length - 1].t : 0)));

function merge({ runtimes }) {
  for (const { id, samples: fresh } of runtimes) {
    const old = byRuntime.get(id) || [];
    const first = fresh.length ? fresh[0].t : Infinity;
    byRuntime.set(id, [...old.filter((sample) => sample.t < first), ...fresh].slice(-KEEP));
  }
  const alive = new Set(runtimes.map((runtime) => runtime.id));
  for (const id of byRuntime.keys()) if (!alive.has(id)) byRuntime.delete(id);
}

/** Keeps the samples up to date while a screen shows them: call `tick` at each overview. */
export function follow(changed) {
  const loader = single(
    (signal) => get('history', { since: Math.floor(newest()) || null }, signal),
    (answer) => {
      merge(answer);
      changed();
    },
  );
  loader.run();
  return {
    tick: () => loader.run(),
    close: () => loader.cancel(),
  };
}
