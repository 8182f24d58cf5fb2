// Changes of the configuration of a service: the measures before and after, with verdicts.

import { h } from './dom.js';
import { DASH, ago, bytes, duration, percent } from './format.js';

const NAMES = {
  stopped_share: 'Stopped', median_pause: 'Median pause', allocated: 'Allocation', live: 'Live after full collections', full_collections: 'Full collections',
  p95_pause: '95th percentile of pauses', full_stopped_share: 'Stopped by full collections', young_budget: 'Young generation before collections', free: 'Free between objects',
  committed_unused: 'Committed, unused', native: 'Memory outside the heap', resident: 'Resident memory', container_peak: 'Peak of the container', cpu: 'CPU', requests: 'Requests',
};
const WORDS = { better: 'better', worse: 'worse', same: 'same', unknown: 'unknown' };

const number = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3).replace(/\.?0+$/, ''));

// Formats a value in its unit.
function shown(value, unit) {
  if (value === null) return DASH;
  const [sign, size] = value < 0 ? ['−', -value] : ['', value];
  if (unit === 'share') return `${sign}${percent(size)}`;
  const per = unit.match(/^(ns|bytes)(?: per (.*))?$/);
  if (per) return `${sign}${per[1] === 'ns' ? duration(size) : bytes(size)}${per[2] ? ` per ${per[2]}` : ''}`;
  return `${sign}${number(size)} ${unit}`;
}

// Returns the interval of the difference, with a sign in front of each end.
function interval({ low, high, unit }) {
  if (low === null) return DASH;
  const signed = (value) => (value > 0 ? `+${shown(value, unit)}` : shown(value, unit));
  return `${signed(low)} to ${signed(high)}`;
}

function rows(measures) {
  return measures.map((one) => h('tr', null,
    h('th', { scope: 'row' }, NAMES[one.measure] ?? one.measure, one.reason ? h('span', { class: 'sub' }, one.reason) : null),
    h('td', { class: 'n' }, shown(one.before, one.unit)),
    h('td', { class: 'n' }, shown(one.after, one.unit)),
    h('td', { class: 'n wide0' }, interval(one)),
    h('td', null, one.verdict ? h('span', { class: `outcome ${one.verdict}` }, WORDS[one.verdict]) : DASH)));
}

function table(measures) {
  const columns = [['Measure', null], ['Before', 'n'], ['After', 'n'], ['Difference (95 %)', 'n wide0'], ['Verdict', null]];
  return h('div', { class: 'scroll' }, h('table', null,
    h('thead', null, h('tr', null, columns.map(([title, style]) => h('th', { class: style, scope: 'col' }, title)))),
    h('tbody', null, rows(measures))));
}

// Returns the settings that differ, such as `version 1 → 2`.
export function whatChanged({ differences }) {
  const value = ({ name }, text) => (/(limit|size|threshold)$/.test(name) && /^\d+$/.test(text) ? bytes(Number(text)) : text);
  return differences.map((one) => `${one.name.replaceAll('_', ' ')} ${value(one, one.before)} → ${value(one, one.after)}`).join(', ') || 'configuration';
}

function note(change) {
  const { before_side: before, after_side: after, minutes_left: left, measures } = change;
  const sides = `${before.minutes} min with ${before.collections} collections before, ${after.minutes} min with ${after.collections} after; warm-up left out.`;
  if (left !== null) return `Too early: a verdict needs 25 min on each side, beyond warm-up. About ${left} min left. ${sides}`;
  const decided = measures.filter((one) => one.verdict);
  const [reason] = decided.map((one) => one.reason);
  // All verdicts have the same reason if one side lacks data.
  return decided.every((one) => one.reason && one.reason === reason) ? `No verdict: ${reason}. ${sides}` : sides;
}

function one(change) {
  const shared = change.measures.find((measure) => measure.verdict)?.reason ?? null;
  const isShared = change.measures.filter((measure) => measure.verdict).every((measure) => measure.reason === shared);
  // A reason of all measures is in the note.
  const measures = change.measures.map((measure) => (isShared && measure.reason === shared ? { ...measure, reason: null } : measure));
  const [decided, others] = [measures.filter((measure) => measure.verdict), measures.filter((measure) => !measure.verdict && measure.before !== null)];
  return h('div', { class: 'change', key: change.id },
    h('h3', null, whatChanged(change), ' ', h('span', { class: 'faint' }, change.at ? ago(change.at) : '')),
    h('p', { class: 'faint' }, note(change)),
    table(decided),
    others.length ? h('details', null, h('summary', null, `${others.length} more ${others.length === 1 ? 'measure' : 'measures'}, without a verdict`), table(others)) : null);
}

// Returns the panel with the changes of a service, newest first, or null if its configuration did not change.
export function changesPanel(changes) {
  return changes.length ? h('section', { class: 'panel', key: 'changes' }, h('h2', null, 'Changes of this service'),
    h('p', { class: 'faint' }, 'Measures before and after a change of version, settings or limits, on this host.'),
    changes.map(one)) : null;
}
