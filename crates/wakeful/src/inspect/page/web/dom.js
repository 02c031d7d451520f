// Elements: building them, and updating them in place.
//
// Program-supplied text only ever passes through `textContent`, `title` or an encoded `href`.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') node.textContent = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Builds an HTML element. `text` sets its text, `onclick` and the like add listeners. */
export const h = (tag, attrs, ...children) => fill(document.createElement(tag), attrs, children);

/** Builds an SVG element. */
export const svg = (tag, attrs, ...children) => fill(document.createElementNS(SVG, tag), attrs, children);

/** Sets an element's text if it differs, so that a selection inside of it survives. */
export function setText(node, text) {
  text = text === null || text === undefined ? '' : String(text);
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes an attribute if it differs. */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    value = value === true ? '' : String(value);
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
}

/** Shows or hides an element. */
export const show = (node, is) => {
  if (node.hidden === !!is) node.hidden = !is;
};

/**
 * Makes the children of `parent` match `items`: one element for each key, reused between calls.
 *
 * `make(item)` returns an element with a method `update(item)`. Focus stays where it was.
 */
export function keyed(parent, items, keyOf, make) {
  const old = parent.keyedNodes || new Map();
  const next = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let cursor = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    if (next.has(key)) continue;
    const node = old.get(key) || make(item);
    old.delete(key);
    next.set(key, node);
    node.update(item);
    if (node === cursor) cursor = cursor.nextElementSibling;
    else parent.insertBefore(node, cursor);
  }
  for (const node of old.values()) node.remove();
  parent.keyedNodes = next;
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
