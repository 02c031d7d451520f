// The connection to the program: requests, actions and the live stream.

/** The error for a failed request; `status` 0 means that the program did not respond. */
class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (!response.ok)
    throw new ApiError(response.status, body?.error || `The program answered with status ${response.status}.`);
  return body;
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { cache: 'no-store', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The program does not answer.');
  }
  return answer(response);
}

/** Reads from the API. Empty parameters are left out. */
export function get(path, params = {}, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return request(text ? `${path}?${text}` : path, { signal });
}

/** Starts an action. The header proves that the request comes from this page. */
export const post = (path, body) =>
  request(path, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-Wakeful-Action': document.querySelector('meta[name="wakeful-action"]').content,
    },
    body: JSON.stringify(body),
  });

/**
 * Wraps a loader so that at most one call runs at a time. A call during a run makes it run once more,
 * and `cancel` drops the result of the current run.
 */
export function single(load, done, failed = () => {}) {
  let control = null;
  let again = false;
  const run = async () => {
    if (control) {
      again = true;
      return;
    }
    const mine = (control = new AbortController());
    try {
      const result = await load(mine.signal);
      if (control === mine) done(result);
    } catch (error) {
      if (error.name !== 'AbortError' && control === mine) failed(error);
    } finally {
      if (control === mine) {
        control = null;
        if (again) {
          again = false;
          run();
        }
      }
    }
  };
  const cancel = () => {
    control?.abort();
    control = null;
    again = false;
  };
  return {
    run,
    cancel,
    restart() {
      cancel();
      run();
    },
  };
}

/**
 * The live stream of overviews. States: connecting, live, paused, lost (tries again), gone (the program
 * said that it ends), refused (the key of this page is not valid any more).
 */
export const live = {
  state: 'connecting',
  overview: null,
  receivedAt: null,
  retryAt: null,
  listeners: [],
  source: null,
  timer: null,
  attempts: 0,

  start() {
    this.open();
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.close();
      else if (this.state !== 'paused') this.open();
    });
  },

  tell(data) {
    for (const listener of this.listeners) listener(data);
  },

  set(state) {
    this.state = state;
    this.tell(null);
  },

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  },

  open() {
    this.close();
    const source = (this.source = new EventSource('/api/v1/events'));
    source.addEventListener('overview', (event) => {
      this.overview = JSON.parse(event.data);
      this.receivedAt = new Date();
      this.attempts = 0;
      if (this.state !== 'live') this.set('live');
      this.tell(this.overview);
    });
    source.addEventListener('gone', () => {
      this.close();
      this.set('gone');
      this.retry();
    });
    source.addEventListener('error', () => {
      this.close();
      this.failed();
    });
  },

  async failed() {
    let state = this.state === 'gone' ? 'gone' : 'lost';
    try {
      await get('overview');
    } catch (error) {
      if (error.status === 401 || error.status === 403) state = 'refused';
    }
    if (this.state === 'paused') return;
    this.retry();
    this.set(state);
  },

  retry() {
    const wait = Math.min(1000 * 1.6 ** this.attempts++, 10000);
    this.retryAt = Date.now() + wait;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), wait);
  },

  togglePause() {
    if (this.state === 'paused') {
      this.state = 'connecting';
      this.open();
      this.tell(null);
    } else {
      this.close();
      this.set('paused');
    }
  },
};
