// Requests that collections stopped: bars from start to end, with the stops.

import { h, legend, swatch } from './dom.js';
import { DASH, count, duration, percent, timeOfDay } from './format.js';

function bar(request, longest) {
  const width = 240;
  const x = (ns) => (ns / longest) * width;
  return h('svg', { class: 'chart', width, height: 14, viewBox: `0 0 ${width} 14`, role: 'img', 'aria-label': `stopped ${percent(request.stopped_ns / request.duration_ns)} of the request` },
    h('rect', { class: 'run', x: 0, y: 2, width: Math.max(1, x(request.duration_ns)), height: 10, rx: 2 }),
    request.stops.map(([from, to]) => h('rect', { class: 'stop', x: x(from), y: 2, width: Math.max(1.5, x(to - from)), height: 10 })));
}

function rows({ worst, trace_url: pattern }, link) {
  const longest = Math.max(1, ...worst.map((request) => request.duration_ns));
  return worst.map((request) => h('tr', null,
    h('td', null, bar(request, longest)),
    h('td', { class: 'n' }, request.start_ms === null ? DASH : timeOfDay(request.start_ms)),
    h('td', { class: 'n' }, duration(request.duration_ns)),
    h('td', { class: 'n' }, duration(request.stopped_ns)),
    h('td', null, request.collections.map((other) => [link(other) ? h('a', { href: link(other) }, other) : other, ' '])),
    h('td', { class: 'trace' }, trace(request.trace_id, pattern))));
}

// Returns a trace id, with a link if the URL of traces is known.
export function trace(id, pattern) {
  if (!id) return DASH;
  const text = h('code', null, id);
  return pattern ? h('a', { href: pattern.replaceAll('{trace_id}', id), target: '_blank', rel: 'noopener' }, text) : text;
}

// Returns the panel. `all`: counts and the requests with the largest loss; `link`: function that returns the address of
// a collection, or null if the collection is not kept.
export function requestsPanel(all, link, note = null) {
  const share = all.known ? percent(all.hit / all.known) : DASH;
  const columns = [['Most delayed', null], ['Start', 'n'], ['Duration', 'n'], ['Lost', 'n'], ['Collections', null], ['Trace', null]];
  return h('section', { class: 'panel', key: 'requests' }, h('h2', null, 'Requests delayed by pauses'),
    note ? h('p', { class: 'faint' }, note) : null,
    h('p', null, `${count(all.hit)} of ${count(all.known)} (${share}), total ${duration(all.lost_ns)}.`, all.known < all.count ? ` Unknown for another ${count(all.count - all.known)}.` : ''),
    all.worst.length ? [
      legend([[swatch('run'), 'request'], [swatch('stop'), 'paused']]),
      h('div', { class: 'scroll' }, h('table', null,
        h('thead', null, h('tr', null, columns.map(([title, style]) => h('th', { class: style, scope: 'col' }, title)))),
        h('tbody', null, rows(all, link))))] : null);
}
