// The theme: the system's, or the reader's choice from localStorage. A classic script in the head, so that
// the page is never painted in the wrong theme first.
(() => {
  const KEY = 'wakeful-theme';
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const now = () => stored() || (dark.matches ? 'dark' : 'light');
  const apply = () => {
    document.documentElement.dataset.theme = now();
    document.dispatchEvent(new Event('themechange'));
  };
  window.wakefulTheme = {
    now,
    toggle() {
      const next = now() === 'dark' ? 'light' : 'dark';
      const system = dark.matches ? 'dark' : 'light';
      try {
        if (next === system) localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, next);
      } catch {
        /* Storage may be disabled: the choice lasts for this page. */
      }
      document.documentElement.dataset.theme = next;
      document.dispatchEvent(new Event('themechange'));
    },
  };
  dark.addEventListener('change', apply);
  apply();
})();
