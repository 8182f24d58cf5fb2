// View of one collection.

import { h, show } from './dom.js';
import { DASH, absolute, ago, bytes, count, duration, exact, kind, percent, reason } from './format.js';
import { timeline } from './charts.js';
import { once, stop } from './live.js';
import { sides } from './process.js';
import { trace } from './requests.js';

let record = null;
let refusal = null;
let address = null;
let go = null;

const PHASES = {
  mark_sized_refs: 'mark: sized references', mark_roots: 'mark: roots', short_weak: 'short weak references',
  scan_finalization: 'finalization', long_weak: 'long weak references', plan: 'plan', relocate: 'relocate', compact: 'compact', sweep: 'sweep',
};

function fact(label, value, note) {
  return h('div', { class: 'fact' }, h('span', { class: 'label' }, label), h('span', { class: 'value' }, value), note ? h('span', { class: 'sub' }, note) : null);
}

function heap(gc) {
  const names = { gen0: 'gen 0', gen1: 'gen 1', gen2: 'gen 2', loh: 'large objects', poh: 'pinned objects' };
  const top = Math.max(1, ...Object.values(gc.heap).map((sizes) => Math.max(sizes.before ?? 0, sizes.after ?? 0)));
  const width = (value) => ({ width: `${(((value ?? 0) / top) * 100).toFixed(1)}%` });
  return h('section', { class: 'panel' }, h('h2', null, 'Heap before and after'),
    h('div', { class: 'scroll' }, h('table', { class: 'tight' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, ''), ['Before', 'After', 'Survived', 'Promoted', 'Free space', 'Budget'].map((title) => h('th', { class: 'n', scope: 'col' }, title)), h('th', { class: 'beside', scope: 'col' }, ''))),
      h('tbody', null, Object.entries(gc.heap).map(([name, sizes]) => h('tr', null,
        h('th', { scope: 'row' }, names[name] ?? name),
        [sizes.before, sizes.after, sizes.survived, sizes.promoted, sizes.fragmentation, sizes.budget].map((value) => h('td', { class: 'n', title: exact(value) }, bytes(value))),
        h('td', { class: 'beside' }, h('span', { class: `level before ${name}`, style: width(sizes.before) }), h('span', { class: `level ${name}`, style: width(sizes.after) })))),
      h('tr', { class: 'sum' }, h('th', { scope: 'row' }, 'Total'), [gc.heap_before, gc.heap_after].map((value) => h('td', { class: 'n', title: exact(value) }, bytes(value))), h('td', { class: 'n' }, ''), h('td', { class: 'n' }, bytes(gc.promoted)), h('td', { colspan: 3 }, ''))))));
}

function phases(gc) {
  const known = Object.entries(gc.phases).filter(([, ns]) => ns !== null && ns > 0);
  const top = Math.max(1, ...known.map(([, ns]) => ns));
  return h('section', { class: 'panel' }, h('h2', null, 'Phases'),
    known.length ? h('table', { class: 'ledger' }, h('tbody', null, known.map(([name, ns]) => h('tr', null, h('th', { scope: 'row' }, PHASES[name] ?? name), h('td', { class: 'n' }, duration(ns)), h('td', { class: 'track' }, h('span', { class: 'level', style: { width: `${((ns / top) * 100).toFixed(1)}%` } })))))) : h('p', { class: 'faint' }, 'The runtime reported no phase times.'));
}

function stops(gc, link) {
  return h('section', { class: 'panel' }, h('h2', null, 'Suspensions'), h('div', { class: 'canvas', id: 'timeline', keep: true }),
    h('p', { class: 'legend' }, h('span', null, h('span', { class: 'swatch suspend' }), 'time to suspend all threads'), h('span', null, h('span', { class: 'swatch stop' }), 'suspended'), h('span', null, h('span', { class: 'swatch run' }), 'GCStart to GCEnd')),
    h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Suspension'), ['Pause', 'Suspend time', 'Whole suspension'].map((title) => h('th', { class: 'n', scope: 'col' }, title)), h('th', { scope: 'col' }, 'Shared with'))),
      h('tbody', null, gc.pauses.map((pause) => h('tr', null, h('td', null, pause.kind), h('td', { class: 'n' }, duration(pause.pause_ns)), h('td', { class: 'n' }, duration(pause.suspend_ns)), h('td', { class: 'n' }, duration(pause.stopped_ns)),
        h('td', null, pause.shared_with.length ? pause.shared_with.map((number, place) => [place ? ', ' : '', h('a', { href: link(number) }, number)]) : DASH)))))));
}

function more(gc) {
  const rows = [
    ['Condemned reasons', gc.condemned_reasons?.length ? gc.condemned_reasons.join(', ') : null],
    ['Compacting', gc.compacting === null ? null : gc.compacting ? 'yes' : 'no'], ['Pause mode', gc.pause_mode],
    ['Heaps', gc.heap_count === null ? null : count(gc.heap_count)], ['Memory load', gc.memory_load_percent === null ? null : `${gc.memory_load_percent} %`],
    ['Pinned objects', gc.pinned_objects === null ? null : count(gc.pinned_objects)], ['GC handles', gc.gc_handles === null ? null : count(gc.gc_handles)],
    ['Ready for finalization', gc.finalization_promoted_count === null ? null : `${count(gc.finalization_promoted_count)} objects, ${bytes(gc.finalization_promoted_bytes)}`],
    ['Committed before and after', gc.committed.before === null && gc.committed.after === null ? null : `${bytes(gc.committed.before)}, ${bytes(gc.committed.after)}`],
    ['Allocated since the previous collection', gc.allocated_since_last === null ? null : bytes(gc.allocated_since_last)],
    ['Delayed requests', gc.requests_hit === null || gc.requests_hit === undefined ? null : gc.requests_hit === 0 ? 'none' : `${count(gc.requests_hit)}, total ${duration(gc.request_time_lost_ns)}${gc.worst_request ? `, maximum ${duration(gc.worst_request.lost_ns)}` : ''}`],
    ['Another profiler', gc.observed_by_others === null ? null : gc.observed_by_others ? 'attached; the pause may be longer' : 'not attached'],
  ].filter(([, value]) => value !== null && value !== undefined);
  return h('section', { class: 'panel' }, h('h2', null, 'Details'), h('table', null, h('tbody', null, rows.map(([name, value]) => h('tr', null, h('th', { scope: 'row' }, name), h('td', null, value))))),
    gc.missing.length ? h('p', { class: 'note' }, `Not available: ${gc.missing.map((name) => name.replaceAll('_', ' ')).join(', ')}.`) : null,
    gc.lossy ? h('p', { class: 'note' }, 'Events were lost during the collection; values may be too low.') : null);
}

function step(neighbour, label, rel) {
  if (!neighbour) return h('span', { class: 'faint' }, '');
  return h('a', { href: `/processes/${record.pid}/collections/${neighbour.number}`, rel, title: absolute(neighbour.start_ms) }, label(neighbour.number), h('span', { class: 'sub' }, `gen ${neighbour.generation ?? '?'}, ${duration(neighbour.pause_ns)}`));
}

export function because(line) {
  const why = reason(line.reason, line.requested_by_tool);
  return [`; reason: ${why}`, line.reason && why !== line.reason ? ` (${line.reason})` : ''];
}

export function figures(line, gc) {
  const freed = line.heap_before !== null && line.heap_after !== null ? line.heap_before - line.heap_after : null;
  return h('div', { class: 'facts', key: 'facts' },
    fact('Pause', duration(line.pause_ns), line.suspend_ns === null ? null : `suspend time ${duration(line.suspend_ns)}`),
    fact('Duration', duration(gc?.duration_ns), gc?.type === 'background' && !gc.became_blocking ? 'mostly concurrent with the program' : null),
    fact('Heap', `${bytes(line.heap_before)} → ${bytes(line.heap_after)}`, freed === null ? null : `${freed >= 0 ? 'freed' : 'grew by'} ${bytes(Math.abs(freed))}${line.heap_before ? ` (${percent(Math.abs(freed) / line.heap_before)})` : ''}`),
    fact('Promoted', bytes(line.promoted), null));
}

export function panels(gc, link) {
  return sides([stops(gc, link), heap(gc)], [phases(gc), more(gc)]);
}

export function drawTimeline(gc) {
  const place = document.getElementById('timeline');
  if (place && gc) show(place, [timeline(gc, Math.max(280, place.clientWidth))]);
}

function render() {
  const main = document.getElementById('main');
  const [pid, number] = address;
  const crumbs = h('p', { class: 'crumbs' }, h('a', { href: '/' }, 'Overview'), ' / ', h('a', { href: `/processes/${pid}` }, record?.name ?? `pid ${pid}`), ` / collection ${number}`);
  if (refusal) return show(main, h('div', { class: 'headline', key: 'refusal' }, crumbs, h('h1', null, `Collection ${number} is not available`), h('p', null, refusal.error), refusal.remedy ? h('p', { class: 'faint' }, refusal.remedy) : null));
  if (!record) return;
  const { line, gc } = record;
  document.title = `collection ${number} · ${record.name} · gcwatch`;
  show(main, [
    h('div', { class: 'headline', key: 'head' }, crumbs,
      h('h1', null, `Collection ${line.number}: ${kind(line.generation, line.type)}`),
      h('p', { class: 'faint' }, ago(line.start), line.start ? ` (${absolute(Date.parse(line.start))})` : '', because(line)),
      record.trace_id ? h('p', null, 'Trace: ', trace(record.trace_id, record.trace_url)) : null,
      h('nav', { class: 'steps', 'aria-label': 'Previous and next collection' }, step(record.previous, (other) => `← ${other}`, 'prev'), step(record.next, (other) => `${other} →`, 'next'))),
    figures(line, gc),
    gc ? panels(gc, (other) => `/processes/${record.pid}/collections/${other}`) : h('p', { class: 'note', key: 'brief' }, 'gcwatch keeps full data only for the newest collections, the longest collections and the collections of incidents. If spans are exported, the span of this collection contains the full data.'),
  ]);
  draw();
}

function draw() {
  drawTimeline(record?.gc);
}

export function open(pid, number, navigate) {
  record = null;
  refusal = null;
  address = [pid, number];
  go = navigate;
  stop();
  const badge = document.getElementById('live');
  badge.className = 'live';
  badge.textContent = 'snapshot';
  const asked = address;
  once(`/api/v1/processes/${encodeURIComponent(pid)}/collections/${encodeURIComponent(number)}`).then(([known, error]) => {
    if (asked !== address) return;
    record = known;
    refusal = error;
    render();
  });
  return { render };
}

// Opens the previous or next collection (left and right arrow).
export function move(by) {
  const next = by < 0 ? record?.previous : record?.next;
  if (next) go(`/processes/${record.pid}/collections/${next.number}`);
}
