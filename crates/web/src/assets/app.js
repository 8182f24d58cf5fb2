// Routes, links, keys and the theme.

import { h, show } from './dom.js';
import { hideTip } from './charts.js';
import * as collection from './collection.js';
import * as overview from './overview.js';
import * as process from './process.js';
import * as rules from './rules.js';
import * as self from './self.js';
import { stop } from './live.js';

let view = null;
let name = null;

const ROUTES = [
  [/^\/$/, 'overview', () => overview.open()],
  [/^\/processes\/(\d+)\/?$/, 'process', (pid) => process.open(pid, navigate)],
  [/^\/processes\/(\d+)\/collections\/(\d+)\/?$/, 'collection', (pid, number) => collection.open(pid, number, navigate)],
  [/^\/rules\/?$/, 'rules', () => rules.open()],
  [/^\/self\/?$/, 'self', () => self.open()],
];

function route() {
  hideTip();
  const main = document.getElementById('main');
  main.replaceChildren(h('p', { class: 'waiting' }, 'Loading'));
  for (const [pattern, known, open] of ROUTES) {
    const parts = pattern.exec(location.pathname);
    if (!parts) continue;
    name = known;
    view = open(...parts.slice(1));
    for (const link of document.querySelectorAll('header nav a')) {
      const current = link.dataset.view === known || (link.dataset.view === 'overview' && (known === 'process' || known === 'collection'));
      if (current) link.setAttribute('aria-current', known === link.dataset.view ? 'page' : 'true');
      else link.removeAttribute('aria-current');
    }
    return;
  }
  stop();
  view = null;
  name = null;
  show(main, h('div', { class: 'headline' }, h('h1', null, 'Page not found'), h('p', null, h('a', { href: '/' }, 'All processes'))));
}

export function navigate(path) {
  history.replaceState({ scroll: scrollY }, '');
  history.pushState({ scroll: 0 }, '', path);
  route();
  scrollTo(0, 0);
}

document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const path = link.getAttribute('href');
  if (!ROUTES.some(([pattern]) => pattern.test(path))) return;
  event.preventDefault();
  navigate(path);
});

addEventListener('popstate', (event) => {
  route();
  const to = event.state?.scroll ?? 0;
  // The content arrives with the first event of the stream, so the scroll position is set repeatedly for about 2 s.
  let tries = 0;
  const timer = setInterval(() => {
    scrollTo(0, to);
    tries += 1;
    if (Math.abs(scrollY - to) < 4 || tries > 20) clearInterval(timer);
  }, 100);
});

addEventListener('keydown', (event) => {
  const typing = event.target.closest('input, textarea, select');
  if (event.key === 'Escape') {
    hideTip();
    if (typing?.value) {
      typing.value = '';
      typing.dispatchEvent(new Event('input'));
    } else if (typing) typing.blur();
    else if (name === 'process' || name === 'collection') navigate(name === 'collection' ? location.pathname.replace(/\/collections\/.*/, '') : '/');
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') {
    const search = document.getElementById('search');
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (name === 'overview' && (event.key === 'j' || event.key === 'k')) overview.move(event.key === 'j' ? 1 : -1);
  else if (name === 'collection' && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) collection.move(event.key === 'ArrowLeft' ? -1 : 1);
  else if (event.key === '?') document.getElementById('keys').showModal();
  else if (event.key === 'o') navigate('/');
  else if (event.key === 'r') navigate('/rules');
  else if (event.key === 'g') navigate('/self');
});

let width = innerWidth;
addEventListener('resize', () => {
  if (width === innerWidth) return;
  width = innerWidth;
  view?.render();
});

const THEMES = ['system', 'light', 'dark'];

function theme(next) {
  const root = document.documentElement;
  if (next === 'system') delete root.dataset.theme;
  else root.dataset.theme = next;
  document.getElementById('theme').replaceChildren('◐', h('span', null, ` ${next}`));
  try {
    localStorage.setItem('theme', next);
  } catch {
    // Without storage, the choice is valid until the page is closed.
  }
}

function storedTheme() {
  try {
    const stored = localStorage.getItem('theme');
    return THEMES.includes(stored) ? stored : 'system';
  } catch {
    return 'system';
  }
}

document.getElementById('help').onclick = () => document.getElementById('keys').showModal();
document.getElementById('theme').onclick = () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? 'system') + 1) % THEMES.length]);
theme(storedTheme());
history.scrollRestoration = 'manual';
route();
