// Routes: the whole view is in the URL's hash, as in `#/tasks?q=reader&sort=busy`.

/** Parses a hash. */
export function parse(hash) {
  const raw = hash.startsWith('#/') ? hash.slice(2) : 'now';
  const cut = raw.indexOf('?');
  const path = (cut < 0 ? raw : raw.slice(0, cut)).split('/');
  return { screen: path[0] || 'now', path, params: new URLSearchParams(cut < 0 ? '' : raw.slice(cut + 1)) };
}

/** Builds a hash from a path and parameters; empty parameters are left out. */
export function link(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

let dispatch = () => {};

/** Calls `handler(route)` now and whenever the URL changes. */
export function start(handler) {
  dispatch = () => handler(parse(location.hash));
  addEventListener('hashchange', dispatch);
  dispatch();
}

/** Opens another view as a new entry of the browser's history. */
export const go = (hash) => {
  location.hash = hash;
};

/**
 * Changes parameters of the current view. With `push`, the back button returns to the view before;
 * otherwise the entry is replaced, as for each letter of a search.
 */
export function amend(changes, push = false) {
  const { path, params } = parse(location.hash);
  const all = { ...Object.fromEntries(params), ...changes };
  const hash = link(path.join('/'), all);
  if (hash === location.hash) return;
  if (push) {
    location.hash = hash;
    return;
  }
  history.replaceState(history.state, '', hash);
  dispatch();
}

/** Changes parameters without notifying the screen, which already shows them. */
export function note(changes) {
  const { path, params } = parse(location.hash);
  const hash = link(path.join('/'), { ...Object.fromEntries(params), ...changes });
  if (hash !== location.hash) history.replaceState(history.state, '', hash);
}

/** Keeps a value, such as a scroll position, with the current entry of the browser's history. */
export const remember = (value) => history.replaceState({ ...history.state, ...value }, '');

/** Returns what `remember` kept for the current entry. */
export const remembered = () => history.state || {};
