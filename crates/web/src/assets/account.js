// Accounts: a total with its parts, as one bar with a legend.

import { h } from './dom.js';
import { duration, percent } from './format.js';

const SHOWN = 5;

// `parts`: [{ title, value, name }] in any order; `name` is an optional colour. `unit` formats a value. The remainder
// is drawn as `other`.
export function bar(parts, total, unit, label) {
  const sorted = [...parts].sort((a, b) => b.value - a.value);
  const shown = sorted.slice(0, SHOWN);
  const rest = total - shown.reduce((sum, part) => sum + part.value, 0);
  const all = shown.map((part, place) => ({ name: `part-${place}`, ...part }));
  if (total > 0 && rest / total >= 0.005) all.push({ title: 'other', value: rest, name: 'part-rest' });
  const text = all.map((part) => `${part.title} ${percent(part.value / total, 0)}`).join(', ');
  return h('div', { class: 'account' },
    h('div', { class: 'stack', role: 'img', 'aria-label': `${label}: ${text}` }, all.map((part) => h('span', { class: part.name, title: `${part.title}: ${unit(part.value)}`, style: { width: `${((part.value / total) * 100).toFixed(2)}%` } }))),
    h('p', { class: 'legend' }, all.map((part) => h('span', null, h('span', { class: `swatch ${part.name}` }), `${part.title} ${percent(part.value / total, 0)}`))));
}

// Returns the bar of stopped time by cause.
export function accountBar(account) {
  if (!account?.total) return null;
  return bar(account.parts, account.total, duration, 'Stopped time');
}
