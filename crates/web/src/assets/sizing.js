// Memory that a service needs: the lower bound of its limit, the window, and the price of other limits.

import { h } from './dom.js';
import { DASH, ago, bytes, count, exact, percent, prose, span } from './format.js';

const GAPS = {
  no_deployment: 'the start of a process', no_peak_hour: 'a whole day, so possibly the peak hour', no_blocking_full_collection: 'a blocking full collection (its duration is an estimate)',
  native_unknown: 'memory outside the heap', limit_unknown: 'the present limit', large_objects: 'the effect of large objects (the model was measured without them)',
  growing: 'the end of the growth of the live size', lost_events: 'events that were lost', missing_minutes: 'minutes with restarts, lost events or heap dumps',
};
const OUTCOMES = { works: 'works', doubtful: 'may end: less than a tenth of the heap is free', thrashes_or_ends: 'thrashes or ends: the live heap does not fit' };

const range = (ends, format, unit = '') => (ends === null ? DASH : `${format(ends[0])} to ${format(ends[1])}${unit}`);

function curve(points) {
  const columns = [['Limit', 'n'], ['Heap', 'n wide0'], ['Full per minute', 'n'], ['Stopped', 'n'], ['Outcome', null]];
  return h('div', { class: 'scroll' }, h('table', null,
    h('thead', null, h('tr', null, columns.map(([title, style]) => h('th', { class: style, scope: 'col' }, title)))),
    h('tbody', null, points.map((point) => h('tr', null,
      h('th', { class: 'n', scope: 'row', title: exact(point.memory_limit) }, bytes(point.memory_limit)),
      h('td', { class: 'n wide0', title: exact(point.heap_limit) }, bytes(point.heap_limit)),
      h('td', { class: 'n' }, range(point.full_per_minute_range, (value) => value.toFixed(1))),
      h('td', { class: 'n' }, range(point.stopped_share, (share) => (share * 100).toFixed(2), ' %')),
      h('td', null, OUTCOMES[point.prospect] ?? point.prospect, point.extrapolated ? ', never tried' : ''))))));
}

// Returns the panel with the memory that the service of a process needs, or null without a record.
export function sizingPanel(record, pid) {
  if (!record) return null;
  const { not_less_than: bound, window, gaps, full_per_minute: full, stopped_share: stopped } = record;
  const now = [full === null ? null : `${full.toFixed(1)} full collections per minute`, stopped === null ? null : `${percent(stopped)} stopped`].filter(Boolean).join(', ');
  return h('section', { class: 'panel', key: 'sizing' }, h('h2', null, 'Memory that the service needs'),
    bound ? h('p', null, h('b', null, `Not less than ${bytes(bound.memory_limit)}`), ` for the container, of which the heap needs ${bytes(bound.heap_limit)}.`)
      : h('p', null, h('b', null, 'Unknown'), `: ${record.unknown_because ?? 'a fact is missing'}.`),
    h('p', { class: 'faint' }, window.observed_ns ? `Window: ${span(window.observed_ns / 1e9)}, until ` : 'Newest minute: ', ago(record.until),
      window.observed_ns ? `; ${count(window.young)} young and ${count(window.full)} full collections, ${count(window.full_blocking)} of them blocking.${now ? ` ${now.charAt(0).toUpperCase()}${now.slice(1)}.` : ''}` : '.'),
    gaps.length && window.observed_ns ? h('p', { class: 'faint' }, `Not seen: ${gaps.map((gap) => GAPS[gap] ?? gap).join('; ')}.`) : null,
    record.curve.length ? curve(record.curve) : null,
    h('p', { class: 'faint' }, prose('Advice about settings is refused: no kind of advice has a proof yet. `gcwatch advise PID` shows why.', pid)));
}
