// Elements from values. Text is always text: this module parses no HTML, and the policy of the page (trusted types)
// forbids it.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'g', 'path', 'line', 'rect', 'circle', 'polygon', 'text', 'polyline', 'title']);

// Returns an element with attributes and children. `on...` are handlers, `key` identifies siblings, `style` is an
// object, and other code fills an element with `keep`.
export function h(tag, attributes, ...children) {
  const svg = SVG_TAGS.has(tag) && !(tag === 'title' && attributes === null);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'key') element.$key = value;
    else if (name === 'keep') element.$keep = true;
    else if (name.startsWith('on')) element[name] = value;
    else if (name === 'style') for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

// Returns an element that is built only if its version differs from the version on the page.
export function lazy(key, version, build) {
  return { $lazy: true, $key: key, version, build };
}

// Updates the children of `parent` to `next` and keeps unchanged elements: focus, scroll position and hover state
// survive.
export function show(parent, next) {
  const list = [];
  const flatten = (items) => {
    for (const item of items) {
      if (item === null || item === undefined || item === false) continue;
      if (Array.isArray(item)) flatten(item);
      else list.push(item instanceof Node || item.$lazy ? item : document.createTextNode(String(item)));
    }
  };
  flatten(Array.isArray(next) ? next : [next]);
  // Elements without a successor are removed first, so that the other elements are not moved and keep the focus.
  const keys = new Set(list.map((item) => item.$key).filter((key) => key !== undefined));
  for (const old of [...parent.childNodes]) if (old.$key !== undefined && !keys.has(old.$key)) old.remove();
  const keyed = new Map();
  for (const old of parent.childNodes) if (old.$key !== undefined) keyed.set(old.$key, old);
  let place = parent.firstChild;
  for (const item of list) {
    if (item.$lazy) {
      const known = keyed.get(item.$key);
      let element = known;
      if (!known || known.$version !== item.version) {
        const built = item.build();
        built.$key = item.$key;
        built.$version = item.version;
        element = known && same(known, built) ? morph(known, built) : built;
        element.$version = item.version;
        if (known && element !== known) known.remove();
      }
      if (element === place) place = place.nextSibling;
      else parent.insertBefore(element, place?.parentNode === parent ? place : null);
      continue;
    }
    if (item.$key !== undefined) {
      const known = keyed.get(item.$key);
      if (known && same(known, item)) {
        morph(known, item);
        if (known === place) place = place.nextSibling;
        else parent.insertBefore(known, place);
        continue;
      }
      parent.insertBefore(item, place);
      continue;
    }
    if (place && place.$key === undefined && same(place, item)) {
      const following = place.nextSibling;
      morph(place, item);
      place = following;
    } else {
      parent.insertBefore(item, place);
    }
  }
  while (place) {
    const following = place.nextSibling;
    place.remove();
    place = following;
  }
}

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.$key === b.$key;
}

const HANDLERS = ['onclick', 'oninput', 'onchange', 'onkeydown', 'onpointermove', 'onpointerleave', 'onpointerdown', 'onpointerup', 'ontoggle', 'onfocus', 'onblur'];

function morph(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return old;
  }
  // An opened `details` element stays open. Styles are set as an object: the policy forbids `style` attributes.
  const skipped = (name) => name === 'style' || (name === 'open' && old.nodeName === 'DETAILS');
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !skipped(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value && !skipped(name)) old.setAttribute(name, value);
  if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const handler of HANDLERS) if (old[handler] !== next[handler]) old[handler] = next[handler];
  if (next.$keep) return old;
  if (old.nodeName === 'INPUT') {
    if (next.type === 'checkbox') old.checked = next.checked;
    return old;
  }
  show(old, [...next.childNodes]);
  return old;
}

// Returns the legend of a chart.
export function legend(items) {
  return h('p', { class: 'legend' }, items.map(([shape, text]) => h('span', null, shape, text)));
}

export const swatch = (name) => h('span', { class: `swatch ${name}` });

// Returns a command with a copy button; `label` names its purpose.
export function command(text, label = null) {
  return h('p', { class: 'command' }, label ? h('span', { class: 'faint' }, label) : null, copied(text));
}

// Returns an inline command with a copy button.
export function copied(text) {
  const copy = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'copied';
    } catch {
      // Without HTTPS, browsers provide no clipboard: the text is selected instead.
      getSelection().selectAllChildren(button.previousSibling);
      button.textContent = 'selected';
    }
    setTimeout(() => { button.textContent = 'copy'; }, 2000);
  };
  return h('span', { class: 'copied' }, h('code', null, text), h('button', { type: 'button', class: 'quiet', title: 'Copy command', onclick: copy }, 'copy'));
}
