// A recording as a model: the polls of each row in order, wake-ups with the polls that follow them, spawn sites.

/** The number of spawn sites with a colour and a letter of their own. */
export const SERIES = 7;

/** The index of the first item whose `at` is not below `at`. */
export function lowerBound(items, at) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Builds the model from the response of `/api/v1/trace`. Times are in µs from the first event of the recording. */
export function build(trace) {
  // A row of other threads or of reports is shown if it has events.
  const isUsed = new Set(trace.events.map(([row]) => row));
  const isShown = (row, i) => row.name.startsWith('worker') || isUsed.has(i);
  const all = trace.rows.map((row, i) => (isShown(row, i) ? { ...row, slices: [], marks: [] } : null));
  const rows = all.filter(Boolean);
  const position = new Map(rows.map((row, i) => [row, i]));
  let from = Infinity;
  let to = -Infinity;
  for (const [, , at, took] of trace.events) {
    if (at < from) from = at;
    if (at + (took || 0) > to) to = at + (took || 0);
  }
  if (!trace.events.length) {
    from = 0;
    to = 1;
  }
  const sites = new Map();
  const polls = new Map();
  const wakes = [];
  for (const [row, kind, at, took, task, spawnedAt] of trace.events) {
    const own = all[row];
    // The future of a block_on has an id beyond those of tasks.
    const event = {
      row: position.get(own),
      kind,
      at: at - from,
      took: took || 0,
      task: task > 0 && task < 2 ** 53 ? task : null,
      site: null,
    };
    if (kind === 'poll') {
      const known = trace.sites[spawnedAt] || trace.tasks[task]?.spawned_at;
      const name = known || (event.task ? 'tasks that have ended since' : 'block_on');
      let site = sites.get(name);
      if (!site) sites.set(name, (site = { name, polls: 0, total: 0, longest: null, series: SERIES }));
      site.polls++;
      site.total += event.took;
      if (!site.longest || event.took > site.longest.took) site.longest = event;
      event.site = site;
      own.slices.push(event);
      let same = polls.get(task);
      if (!same) polls.set(task, (same = []));
      same.push(event);
    } else if (kind === 'park') {
      own.slices.push(event);
    } else {
      own.marks.push(event);
      if (kind === 'wake') wakes.push(event);
    }
  }
  const byTime = (a, b) => a.at - b.at;
  for (const row of rows) {
    row.slices.sort(byTime);
    row.marks.sort(byTime);
  }
  for (const own of polls.values()) own.sort(byTime);
  wakes.sort(byTime);
  for (const wake of wakes) {
    const own = polls.get(wake.task) || [];
    const next = own[lowerBound(own, wake.at)];
    if (next) {
      wake.leadsTo = next;
      if (!next.wokenBy) next.wokenBy = wake;
    }
  }
  const ranked = [...sites.values()].sort((a, b) => b.total - a.total);
  ranked.forEach((site, i) => {
    site.series = Math.min(i, SERIES);
    site.letter = i < SERIES ? String.fromCharCode(65 + i) : '';
  });
  const span = Math.max(1, to - from);
  return {
    rows,
    events: trace.events.length,
    wakes,
    sites: ranked,
    span,
    tasks: trace.tasks,
    hasRuntimes: new Set(rows.map((row) => row.runtime)).size > 1,
  };
}
