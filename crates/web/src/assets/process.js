// View of one process: pauses, memory, causes and settings.

import { h, legend, show, swatch } from './dom.js';
import { DASH, ago, bytes, count, duration, exact, kind, kindClass, percent, prose, rate, reason, severity, since, span, timeOfDay, zone } from './format.js';
import { GENERATIONS, allocationChart, cross, drag, heapChart, hideTip, isCrowded, mark, pauseChart, stoppedChart, timeAt, trend } from './charts.js';
import { accountBar, bar } from './account.js';
import { changesPanel, whatChanged } from './changes.js';
import { incidentCard, showDashboards } from './incidents.js';
import { follow, once } from './live.js';
import { requestsPanel } from './requests.js';
import { sizingPanel } from './sizing.js';

let record = null;
let gone = null;
let go = null;
// Whether the chart of pauses shows only the time with marks.
let near = false;
// Range of the charts from the address: last minutes, or from and to (Unix milliseconds); null if the charts show all.
let minutes = null;
let zoomed = null;

function readUrl() {
  const query = new URLSearchParams(location.search);
  near = query.get('near') === '1';
  minutes = Number(query.get('minutes')) || null;
  const [from, to] = [Number(query.get('from')), Number(query.get('to'))];
  zoomed = from && to > from ? [from, to] : null;
}

function choose(next) {
  if ('near' in next) near = next.near;
  if ('minutes' in next) [minutes, zoomed] = [next.minutes, null];
  if ('zoomed' in next) zoomed = next.zoomed;
  const query = new URLSearchParams();
  if (near) query.set('near', '1');
  if (zoomed) [['from', zoomed[0]], ['to', zoomed[1]]].forEach(([name, ms]) => query.set(name, Math.round(ms)));
  if (minutes && (!zoomed || minutes > 30)) query.set('minutes', minutes);
  const text = query.toString();
  history.replaceState(history.state, '', text ? `${location.pathname}?${text}` : location.pathname);
  render();
  if (record) askLong(record.process.pid);
}

// Returns process starts, versions, changes of the service and incidents as marks of the charts.
function marksOf({ resource, incidents, changes }) {
  const started = Date.parse(resource['process.creation.time'] ?? '');
  const version = resource['service.version'];
  const all = Number.isNaN(started) ? [] : [{ ms: started, name: 'start', title: version ? `started, version ${version}` : 'started' }];
  for (const change of changes.filter((one) => one.at !== null)) all.push({ ms: Date.parse(change.at), name: 'change', title: `change: ${whatChanged(change)}` });
  for (const incident of incidents.filter((one) => one.severity !== 'info')) {
    all.push({ ms: Date.parse(incident.since), name: incident.severity, title: `${incident.title}: start` });
    if (incident.until !== null) all.push({ ms: Date.parse(incident.until), name: 'ended', title: `${incident.title}: resolved` });
  }
  return all;
}

const RANGES = [[null, '30 min'], [15, '15 min'], [5, '5 min'], [2, '2 min']];
// Ranges of more than 30 minutes, from the disk. The last value of a range is the minutes of kept history that the
// range requires.
const LONG = [[1440, '24 h', 360], [360, '6 h', 120], [120, '2 h', 30]];

// History of the selected range from the disk, requested once per minute.
let long = null;
let longAsked = [0, null];

// Returns whether an earlier gcwatch instance recorded history that is not in the memory of this instance.
const isContinued = () => record.kept_from_ms !== null && record.history.attached_ms !== null && record.kept_from_ms < record.history.attached_ms - 15000;

const longHours = () => (minutes > 30 ? Math.min(24, Math.ceil(minutes / 60)) : isContinued() ? 1 : null);

async function askLong(pid) {
  const hours = longHours();
  if (!hours || (longAsked[1] === hours && Date.now() - longAsked[0] < 60000)) return;
  longAsked = [Date.now(), hours];
  const [history] = await once(`/api/v1/processes/${pid}/history?hours=${hours}`);
  if (record?.process.pid !== pid || longHours() !== hours) return;
  long = history ? { hours, history } : null;
  render();
}

// Joins columns with the same step: history from the disk, then history from memory.
function joined(older, newer) {
  const from = newer.start_ms[0] ?? Infinity;
  const places = older.start_ms.map((start, place) => [start, place]).filter(([start]) => start < from).map(([, place]) => place);
  const join = (a, b) => {
    if (Array.isArray(b)) return [...places.map((place) => a[place]), ...b];
    return b && typeof b === 'object' ? Object.fromEntries(Object.keys(b).map((key) => [key, join(a[key], b[key])])) : b;
  };
  return { ...join(older, newer), attached_ms: older.attached_ms };
}

// Returns the history that the charts show.
function shownHistory() {
  if (!long || long.hours !== longHours()) return record.history;
  return minutes > 30 ? long.history : joined(long.history, record.history);
}


function ranges(marks) {
  const minutesKept = record.kept_from_ms === null ? 0 : (record.at_ms - record.kept_from_ms) / 60000;
  const all = [...LONG.filter(([, , than]) => minutesKept > than), ...RANGES];
  return h('p', { class: 'ranges', key: 'ranges' }, h('span', { class: 'faint' }, 'Show '),
    all.map(([value, label]) => h('button', { type: 'button', class: 'quiet', 'aria-pressed': String(!zoomed && minutes === value), onclick: () => choose({ minutes: value }) }, label)),
    zoomed ? h('button', { type: 'button', class: 'quiet', 'aria-pressed': 'true', title: 'Restore the previous range', onclick: () => choose({ zoomed: null }) }, `${timeOfDay(zoomed[0])} to ${timeOfDay(zoomed[1])} ✕`) : h('span', { class: 'faint' }, ' or select a range in a chart'),
    h('span', { class: 'faint' }, ` · ${zone()}`),
    h('span', { class: 'legend' }, MARKED.filter(([names]) => marks.some((mark) => names.includes(mark.name))).map(([names, label]) => h('span', null, pin(marks.find((mark) => names.includes(mark.name)).name), label))));
}

// Meaning of the marks over the charts.
const MARKED = [[['start'], 'process start'], [['change'], 'change of the service'], [['critical', 'error', 'warning'], 'incident start'], [['ended'], 'incident end']];
const pin = (name) => h('svg', { width: 10, height: 8, viewBox: '0 0 10 8', class: `event ${name}`, 'aria-hidden': 'true' }, h('path', { d: 'M1 0h8L5 7z' }));

// Pointer handlers of all charts: the cross-hair, and the selection of a time range.
let begun = null;
const pointing = {
  onpointerdown: (event) => {
    const svg = event.target.closest?.('svg.timed');
    drag.moved = false;
    begun = svg && event.button === 0 ? { svg, x: event.clientX, ms: timeAt(svg, event.clientX) } : null;
  },
  onpointermove: (event) => {
    const svg = event.target.closest?.('svg.timed');
    cross(event.currentTarget, svg ? timeAt(svg, event.clientX) : null);
    if (begun && Math.abs(event.clientX - begun.x) > 12) drag.moved = true;
  },
  onpointerup: (event) => {
    if (begun && drag.moved) {
      const to = timeAt(begun.svg, event.clientX);
      const [from, until] = [Math.min(begun.ms, to), Math.max(begun.ms, to)];
      if (until - from >= 1000) choose({ zoomed: [from, until] });
    }
    begun = null;
  },
  onpointerleave: (event) => cross(event.currentTarget, null),
};

// Stopped requests, or the reason why the requests are not available; requested while requests are observed.
let stopped = null;
let refused = null;
let asked = 0;

async function askRequests(pid) {
  if (!record?.requests || Date.now() - asked < 10000) return;
  asked = Date.now();
  const [found, refusal] = await once(`/api/v1/evidence/requests/${pid}`);
  if (record?.process.pid !== pid) return;
  [stopped, refused] = [found, refusal];
  render();
}

// All viewers see the counts; only users with access to evidence see the requests.
function requests(process, link) {
  if (!record.requests) return null;
  if (stopped) return requestsPanel(stopped, link, 'In the last half hour.');
  const { known, hit } = record.requests;
  return h('section', { class: 'panel', key: 'requests' }, h('h2', null, 'Requests delayed by pauses'),
    h('p', null, `${count(hit)} of ${count(known)} in the last minute${known ? ` (${percent(hit / known)})` : ''}.`),
    refused ? h('p', { class: 'faint' }, `Request details are not available: ${refused.error}`) : null);
}

export function fact(label, value, note) {
  return h('div', { class: 'fact' }, h('span', { class: 'label' }, label), h('span', { class: 'value' }, value), note ? h('span', { class: 'sub' }, note) : null);
}

// The two questions after an alert: whether pauses slow down the process, and whether its memory is a problem. Each
// answer has a colour, one word, and a sentence with figures.
function latency(process, open) {
  const { minute } = process;
  const incident = open.find((one) => one.symptom.startsWith('time.'));
  const of = (incident && LEVELS[incident.severity]) || null;
  if (!minute || !minute.window_ns) return [of ?? '', incident ? 'Yes' : 'Unknown', incident?.summary ?? 'no data for the last minute'];
  const share = minute.stopped_share ?? 0;
  const collections = minute.gen0 + minute.gen1 + minute.gen2 + minute.background;
  const last = process.state === 'ended' ? 'the last minute of the process' : 'the last minute';
  const figures = !collections && !minute.stopped_ns ? `no GC in ${last}` : `GC pauses took ${percent(share)} of ${last}, the longest ${duration(minute.longest_ns)}`;
  if (share >= 0.2) return ['bad', 'Yes', figures];
  if (share >= 0.05) return [of ?? 'mid', of === 'bad' ? 'Yes' : 'Partly', figures];
  if (minute.longest_ns > 5e8) return [of ?? 'mid', 'Partly', `${figures}; concurrent requests waited for the whole pause`];
  // The condition is cleared: the incident closes if the condition stays cleared.
  if (incident) return [of, 'Not now', `${figures}; the incident closes if the condition stays cleared`];
  return ['calm', 'No', figures];
}

const LEVELS = { critical: 'bad', error: 'bad', warning: 'mid', info: 'calm' };

function memory_answer(memory, history, open) {
  const { trends } = memory;
  const level = Math.max(trends.container.level ?? 0, trends.heap.level ?? 0);
  // Memory can be the cause of an incident of stopped time.
  const ofMemory = (rule) => /^(memory|finalizers)\./.test(rule);
  const incident = open.find((one) => ofMemory(one.symptom)) ?? open.find((one) => one.members.some((member) => member.role === 'symptom' && ofMemory(member.rule)) || one.causes.some((cause) => cause.rule === 'memory.no-space'));
  const limit = memory.heap_limit ?? memory.container_limit;
  const used = memory.heap_after === null ? null : `heap ${bytes(memory.heap_after)}${limit ? ` of ${bytes(limit)}` : ', no known limit'}`;
  const pace = trends.process.growth_per_minute ?? trends.heap.growth_per_minute;
  const lean = pace === null ? trend(history)?.slope ?? null : pace;
  const grows = lean !== null && lean >= 1048576 ? `${pace === null ? 'live heap' : 'memory'} grows by ${bytes(lean)}/min` : null;
  const figures = [used, grows].filter(Boolean).join(', ');
  if (incident) return [LEVELS[incident.severity], 'Yes', incident.summary];
  if (!figures) return ['', 'Unknown', 'no data yet'];
  if (grows) return ['mid', 'Growing', `${figures}; no incident`];
  if (level > 0.9) return ['mid', 'Nearly full', figures];
  return ['calm', 'No', figures];
}

const RANK = { bad: 3, mid: 2, calm: 1, '': 0 };

export function answer(question, [level, word, sentence], below = null) {
  return h('div', { class: `answer ${level}` },
    h('p', null, h('span', { class: 'question' }, question), ' ', h('b', { class: 'word' }, `${word}.`), ' ', `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`.replace(/\.\.$/, '.')),
    below);
}

export function answers(all) {
  const level = Object.keys(RANK).reduce((worst, one) => (all.some(([of]) => of === one) && RANK[one] > RANK[worst] ? one : worst), '');
  return h('section', { class: `verdict ${level}`, key: 'verdict', 'aria-label': 'Summary' }, all.map(([, element]) => element));
}

function verdict(record, open) {
  const { process, memory, history } = record;
  const [slow, full] = [latency(process, open), memory_answer(memory, history, open)];
  const account = record.account_recent?.total ? record.account_recent : record.account;
  return answers([
    [slow[0], answer('Do GC pauses slow down the process?', slow, accountBar(account))],
    [full[0], answer('Is memory a problem?', full, memoryBar(memory))],
  ]);
}

// Returns the memory breakdown as one bar.
function memoryBar({ ledger }) {
  if (!ledger?.usage) return null;
  const parts = LINES.filter(([key]) => ledger[key]).map(([key, color, label]) => ({ title: label.replace(/^The /, '').toLowerCase(), value: ledger[key], name: `ledger-${color}` }));
  return parts.length ? bar(parts, Math.max(ledger.usage, parts.reduce((sum, part) => sum + part.value, 0)), bytes, 'Memory') : null;
}

function head(process, worst) {
  const parts = [process.pod, process.namespace, process.container, process.process !== process.name ? process.process : null, `pid ${process.pid}`];
  return h('div', { class: 'headline', key: 'head' },
    h('p', { class: 'crumbs' }, h('a', { href: '/' }, 'Overview'), ' / ', process.name),
    h('h1', null, severity(worst, false), ' ', process.name),
    h('p', { class: 'faint' }, parts.filter(Boolean).join(' · '), process.runtime ? ` · .NET ${process.runtime}` : '', process.collector ? ` · ${process.collector}` : ''),
    process.state === 'attached' || process.state === 'ended' ? null : h('p', { class: 'note' }, h('b', null, process.state.replace('_', ' ')), process.detail ? `: ${process.detail}` : '', process.since ? [', ', since(process.since)] : null, process.remedy ? h('span', { class: 'block' }, process.remedy) : null));
}

function facts(process, memory) {
  const { minute } = process;
  const perSecond = minute?.allocated == null || !minute.window_ns ? null : minute.allocated / (minute.window_ns / 1e9);
  const limit = memory.heap_limit ?? memory.container_limit;
  return h('div', { class: 'facts', key: 'facts' },
    fact('Stopped', percent(minute?.stopped_share), minute ? `of the last ${Math.round(minute.window_ns / 1e9)} s` : 'unknown'),
    fact('Longest pause', duration(minute?.longest_ns), minute ? `p99 ${duration(minute.p99_ns)}, median ${duration(minute.p50_ns)}` : null),
    fact('Collections', minute ? `${rate(minute.gen0 + minute.gen1 + minute.gen2 + minute.background, minute.window_ns)} /s` : DASH, minute ? `gen 2: ${minute.gen2}, background: ${minute.background}, induced: ${minute.induced}` : null),
    fact('Allocation', perSecond === null ? DASH : `${minute.allocated_lower_bound ? '≥ ' : ''}${bytes(perSecond)}/s`, 'in the last minute'),
    fact('Heap', h('span', { title: exact(memory.heap_after) }, bytes(memory.heap_after)), [limit ? `${percent(memory.heap_after === null ? null : memory.heap_after / limit)} of ${bytes(limit)}` : 'no known limit', memory.heap_limit_note && memory.heap_limit === null ? h('span', { class: 'block' }, memory.heap_limit_note) : null]),
    fact('Last collection', process.last_collection_ms ? ago(process.last_collection_ms) : DASH, `${count(process.collections)} since gcwatch attached`));
}

const MARKS = [['g0', 'generation 0'], ['g1', 'generation 1'], ['g2', 'generation 2'], ['bg', 'background'], ['gx', 'unknown']];

export function marksLegend(pauses) {
  const drawn = new Set(pauses.generation.map((generation, place) => kindClass(generation, pauses.type[place])));
  return legend(MARKS.filter(([name]) => drawn.has(name)).map(([name, label]) => [mark(name), label]));
}

// Returns the legend of the heap chart.
export function heapLegend({ heap, committed }, limit = null) {
  const generations = GENERATIONS.filter(([name]) => heap[name].some((bytes) => bytes > 0)).map(([name, label]) => [swatch(name), label]);
  return legend([...generations, ...(committed.some((bytes) => bytes !== null) ? [[swatch('committed'), 'committed']] : []), ...(limit ? [[swatch('limit'), 'limit']] : [])]);
}

export function chart(title, note, key, below, beside = null) {
  return h('section', { class: 'panel', key }, h('h2', null, title, beside), note ? h('p', { class: 'faint' }, note) : null, h('div', { class: 'canvas', id: `chart-${key}`, keep: true }), below ?? null);
}

export function causes(list, since = 'Since gcwatch attached') {
  const all = list.reduce((sum, cause) => sum + cause.pause_ns, 0);
  return h('section', { class: 'panel', key: 'causes' }, h('h2', null, 'Causes of collections'), h('p', { class: 'faint' }, `${since}; longest total pause first.`),
    list.length ? h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, ['Reason', 'Collection'].map((title) => h('th', { scope: 'col' }, title)), ['Count', 'Stopped', 'Share', 'Longest'].map((title) => h('th', { class: title === 'Share' ? 'n wide0' : 'n', scope: 'col' }, title)))),
      h('tbody', null, list.map((cause) => h('tr', null,
        h('td', null, cause.rest ? 'other reasons' : h('b', null, cause.reason ?? 'unknown'), h('span', { class: 'sub' }, cause.rest || !cause.reason || reason(cause.reason, cause.requested_by_tool) === cause.reason ? '' : reason(cause.reason, cause.requested_by_tool))),
        h('td', null, cause.rest ? DASH : kind(cause.generation, cause.type)),
        h('td', { class: 'n' }, count(cause.count)),
        h('td', { class: 'n', title: cause.unknown_pauses ? `${cause.unknown_pauses} pauses are unknown` : null }, cause.longest_ns === null ? DASH : `${cause.unknown_pauses ? '≥ ' : ''}${duration(cause.pause_ns)}`),
        h('td', { class: 'n wide0' }, all && cause.longest_ns !== null ? percent(cause.pause_ns / all) : DASH),
        h('td', { class: 'n' }, duration(cause.longest_ns))))))) : h('p', null, 'No collections yet'));
}

// Returns the table of stopped time by cause, largest part first.
export function account(of, since) {
  const parts = [...of.parts, ...(of.unexplained ? [{ title: 'unexplained', value: of.unexplained, share: of.unexplained / of.total, kind: 'measured' }] : [])];
  const top = Math.max(1, ...parts.map((part) => part.value));
  const [large, small] = [parts.filter((part) => part.share >= 0.01), parts.filter((part) => part.share < 0.01)];
  // If the process does not report roots and survivors separately, the part is a range.
  const known = (part) => (part.high - part.low >= 0.02 * of.total ? `${Math.round((100 * part.low) / of.total)} to ${Math.round((100 * part.high) / of.total)} %` : part.kind === 'estimated' ? 'estimated' : null);
  const row = (part) => h('tr', null,
    h('th', { scope: 'row' }, part.title, known(part) ? h('span', { class: 'sub' }, known(part)) : null),
    h('td', { class: 'n' }, duration(part.value)),
    h('td', { class: 'n' }, percent(part.share)),
    h('td', { class: 'track' }, h('span', { class: 'level', style: { width: `${((part.value / top) * 100).toFixed(1)}%` } })));
  const table = (some) => h('table', { class: 'ledger' }, h('tbody', null, some.map(row)));
  const askers = of.asked_by.filter((part) => part.share >= 0.005).map((part) => `${part.title} ${percent(part.share)}`).join(', ');
  return h('section', { class: 'panel', key: 'account' }, h('h2', null, 'Stopped time by cause'), h('p', { class: 'faint' }, `${since}; total ${of.lower_bound ? 'at least ' : ''}${duration(of.total)}.`),
    parts.length ? table(small.length > 2 ? large : parts) : h('p', null, 'The process was not stopped.'),
    small.length > 2 ? h('details', null, h('summary', null, `${small.length} other causes below 1 % each, ${percent(small.reduce((sum, part) => sum + part.share, 0))} in total`), table(small)) : null,
    askers ? h('p', { class: 'faint' }, `Requested by ${askers}.`) : null);
}

export function lines(title, note, list, key, link) {
  return h('section', { class: 'panel late', key }, h('h2', null, title), h('p', { class: 'faint' }, note),
    list.length ? h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, h('th', { class: 'n', scope: 'col' }, 'No.'), h('th', { scope: 'col' }, 'Time'), h('th', { class: 'n', scope: 'col' }, 'Pause'), ['Collection', 'Reason'].map((name) => h('th', { scope: 'col' }, name)), ['Heap before', 'after'].map((name) => h('th', { class: 'n', scope: 'col' }, name)))),
      h('tbody', null, list.map((line) => h('tr', null,
        h('td', { class: 'n' }, h('a', { href: link(line.number) }, line.number)),
        h('td', { class: 'when' }, ago(line.start)),
        h('td', { class: 'n' }, duration(line.pause_ns)),
        h('td', null, kind(line.generation, line.type), line.lossy ? h('span', { class: 'tag' }, 'events lost') : null),
        h('td', null, line.reason ?? DASH),
        h('td', { class: 'n' }, bytes(line.heap_before)),
        h('td', { class: 'n' }, bytes(line.heap_after))))))) : h('p', null, 'No collections yet'));
}

// Returns two columns of panels. With space for one column only, panels marked `late` come last.
export function sides(left, right) {
  return h('div', { class: 'sides', key: 'sides' }, h('div', { class: 'side' }, left), h('div', { class: 'side' }, right));
}

// Lines of the ledger: key, colour, label, note and verdict.
const LINES = [
  ['live', 'live', 'Live objects', 'as of the newest full collection', 'live-heap'],
  ['not_looked_at', 'unseen', 'Old objects, not looked at', 'since the newest full collection; possibly dead', 'not-looked-at'],
  ['free', 'free', 'Free between them', 'fragmentation: the heap can use it again', 'fragmentation'],
  ['committed_unused', 'unused', 'Committed, unused', 'kept by the GC for the next allocations', 'committed-unused'],
  ['bookkeeping', 'tables', 'GC tables', '', null],
  ['native', 'native', 'Native', 'the rest of the process: native allocations, stacks, compiled code', 'native'],
  ['other_processes', 'others', 'Other processes', 'in the same container', 'other-processes'],
  ['files_in_memory', 'memory-files', 'Files in memory', 'tmpfs and shared memory', 'files-in-memory'],
  ['page_cache', 'files', 'Page cache', 'pages of files on disk; reclaimable by the kernel', 'page-cache'],
  ['kernel', 'kernel', 'Kernel', 'for this container: network buffers, page tables', 'kernel'],
  ['kernel_reclaimable', 'caches', 'Kernel caches', 'directory entries and inodes; reclaimable by the kernel', null],
  ['unknown', 'unknown', 'Unknown', 'difference between usage and lines', null],
];

const VERDICTS = {
  'live-heap': 'Mostly live managed objects.',
  'not-looked-at': 'Mostly old managed objects that no full collection has visited: the live part is unknown.',
  fragmentation: 'Mostly free space between live objects: managed, kept but unused.',
  'committed-unused': 'Mostly committed and unused: managed, kept for later.',
  native: 'Mostly native memory, outside the GC heap.',
  'other-processes': 'Mostly other processes in the container.',
  'files-in-memory': 'Mostly files in memory (tmpfs).',
  'page-cache': 'Mostly pages of files in use.',
  kernel: 'Mostly kernel memory for the container.',
  'not-known': 'Unknown: the lines explain too little of the usage.',
};

function growth(name, perMinute) {
  if (perMinute === null || Math.abs(perMinute) < 65536) return null;
  return `${name} ${perMinute > 0 ? 'grows' : 'shrinks'} by ${bytes(Math.abs(perMinute))}/min`;
}

// Returns the growth of a line with its sign; less than 64 KiB per minute is omitted.
function aMinute(perMinute) {
  if (perMinute === null || Math.abs(perMinute) < 65536) return null;
  return `${perMinute > 0 ? '+' : '−'}${bytes(Math.abs(perMinute))}/min`;
}

function noteOf(ledger, key, note) {
  if (key === 'other_processes' && ledger.largest_other) return `${note}; largest: ${ledger.largest_other}`;
  if (key.startsWith('kernel') && ledger.kernel_is_estimated) return `${note} (estimate)`;
  return note;
}

function ledgerPanel(ledger, memory) {
  const whole = Math.max(1, ledger.limit ?? 0, ledger.usage ?? 0);
  const known = LINES.filter(([key]) => ledger[key] !== null);
  const name = (verdict) => LINES.find((line) => line[4] === verdict)?.[2] ?? 'Memory';
  const grows = [growth(name(ledger.verdict), ledger.growth_per_minute), ledger.fastest !== ledger.verdict ? growth(name(ledger.fastest), ledger.fastest_per_minute) : null].filter(Boolean);
  const share = (value) => percent(value / whole, value / whole < 0.1 ? 1 : 0);
  const row = ([key, color, label, note, verdict]) => h('tr', { class: verdict === ledger.verdict ? 'sum' : null },
    h('th', { scope: 'row' }, swatch(`ledger-${color}`), ' ', label, h('span', { class: 'sub' }, noteOf(ledger, key, note))),
    h('td', { class: 'n', title: exact(ledger[key]) }, bytes(ledger[key])),
    h('td', { class: 'n' }, ledger[key] === null ? DASH : share(ledger[key])),
    h('td', { class: 'n' }, aMinute(ledger.growth[key])));
  const title = known.map(([key, , label]) => `${label} ${bytes(ledger[key])}`).join(', ');
  return h('section', { class: 'panel', key: 'memory' }, h('h2', null, 'Memory breakdown'),
    h('p', null, h('b', null, VERDICTS[ledger.verdict]), grows.length ? ` ${grows.join('; ')}.` : ''),
    h('div', { class: 'stack', role: 'img', 'aria-label': title }, known.map(([key, color, label]) => ledger[key] ? h('span', { class: `ledger-${color}`, title: `${label}: ${bytes(ledger[key])}`, style: { width: `${((ledger[key] / whole) * 100).toFixed(2)}%` } }) : null)),
    h('p', { class: 'legend' }, ledger.limit === null ? h('span', null, `${bytes(ledger.usage)} in use, no limit`) : [h('span', null, `${bytes(ledger.usage)} in use`), h('span', null, `${bytes(ledger.headroom)} left`), h('span', null, `container limit ${bytes(ledger.limit)}`)]),
    h('table', { class: 'ledger' }, h('tbody', null, LINES.map(row))),
    trendTable(memory.trends),
    h('p', { class: 'faint' }, ledger.counted ? 'Resident memory, pages counted ' : 'Resident memory; the heap part is estimated from private memory, ', ledger.at_ms ? ago(ledger.at_ms) : DASH, '.'),
    h('details', null, h('summary', null, 'All values'), figures(memory)));
}

// Level, trend and age: the data behind verdicts on memory.
function trendTable(trends) {
  const rows = [
    ['Container', trends.container, 'without memory that the kernel can reclaim'],
    ['Process', trends.process, 'private memory'],
    ['Heap', trends.heap, 'live after the newest full collection'],
  ].filter(([, one]) => one.bytes !== null);
  if (!rows.length) return null;
  const unvisited = trends.unvisited ? `No full collection has visited ${bytes(trends.unvisited)} of the heap for ${duration((trends.full_collection_s ?? 0) * 1e9)}${trends.full_kept_away ? ': the latency mode suppresses full collections' : ''}.` : null;
  return [
    h('div', { class: 'scroll' }, h('table', { class: 'ledger' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Level and trend'), ['Memory', 'Share of limit', 'Growth', 'Growth time'].map((title) => h('th', { class: 'n', scope: 'col' }, title)))),
      h('tbody', null, rows.map(([name, one, note]) => h('tr', null,
        h('th', { scope: 'row' }, name, h('span', { class: 'sub' }, note)),
        h('td', { class: 'n', title: exact(one.bytes) }, bytes(one.bytes)),
        h('td', { class: 'n' }, one.level === null ? DASH : percent(one.level)),
        h('td', { class: 'n' }, one.growth_per_minute === null ? DASH : one.growth_per_minute < 65536 ? 'none' : `+${bytes(one.growth_per_minute)}/min`),
        h('td', { class: 'n' }, one.growing_s === null ? DASH : duration(one.growing_s * 1e9))))))),
    unvisited ? h('p', { class: 'faint' }, unvisited) : null,
  ];
}

function memoryPanel(memory) {
  if (memory.ledger) return ledgerPanel(memory.ledger, memory);
  return h('section', { class: 'panel', key: 'memory' }, h('h2', null, 'Memory breakdown'), h('p', { class: 'faint' }, 'Measured from outside the process; a dash means unknown.'),
    figures(memory));
}

function figures(memory) {
  const rows = [
    ['Live objects', memory.heap_live, 'after the newest collection'],
    ['Free space', memory.heap_free, 'fragmentation: reusable by the heap'],
    ['Heap', memory.heap_after, 'live objects and free space'],
    ['Committed by the heap', memory.heap_committed, '.NET 8 and later'],
    ['Limit of the heap', memory.heap_limit, memory.heap_limit_note ?? 'hard limit, or the share of the container limit for the heap'],
    ['Private memory', memory.private, 'heap, native allocations, stacks, compiled code'],
    ['Resident', memory.resident, 'including pages of files'],
    ['Container usage', memory.container_working_set, 'without immediately reclaimable pages'],
    ['Container usage with page cache', memory.container_usage, ''],
    ['Limit of the container', memory.container_limit, 'at the limit the kernel kills processes'],
  ];
  const outside = memory.private !== null && memory.heap_committed !== null && memory.private > memory.heap_committed ? memory.private - memory.heap_committed : null;
  if (outside !== null) rows.splice(7, 0, ['Private memory outside the heap', outside, 'private memory minus committed heap']);
  const top = Math.max(1, ...rows.map(([, value]) => value ?? 0));
  return h('table', { class: 'ledger' }, h('tbody', null, rows.map(([label, value, note]) => h('tr', null,
    h('th', { scope: 'row' }, label, h('span', { class: 'sub' }, note)),
    h('td', { class: 'n', title: exact(value) }, bytes(value)),
    h('td', { class: 'track' }, value === null ? null : h('span', { class: label.startsWith('Limit') ? 'level limit' : 'level', style: { width: `${((value / top) * 100).toFixed(1)}%` } }))))));
}

function settings(list, process) {
  const value = (setting) => {
    if (typeof setting.value === 'boolean') return setting.value ? 'yes' : 'no';
    const isBytes = /limit|threshold|memory$|budget/.test(setting.name);
    return isBytes && typeof setting.value === 'number' ? h('span', { title: exact(setting.value) }, bytes(setting.value)) : String(setting.value);
  };
  return h('section', { class: 'panel late', key: 'settings' }, h('h2', null, 'GC settings'),
    list.length ? h('table', null, h('tbody', null, list.map((setting) => h('tr', null,
      h('th', { scope: 'row' }, setting.name.replace('gcwatch.gc.settings.', '').replaceAll('_', ' '), h('span', { class: 'sub' }, setting.description)),
      h('td', { class: 'n' }, value(setting)))))) : h('p', { class: 'faint' }, `Unknown${process.runtime && Number.parseInt(process.runtime, 10) < 9 ? ': .NET 9 and later report them' : ''}.`));
}

export function unseenList(unseen) {
  return unseen.length ? h('ul', { class: 'unseen' }, unseen.map(({ what, why }) => h('li', null, h('b', null, what), h('span', { class: 'sub' }, prose(why))))) : h('p', null, 'No data is missing: all events were read.');
}

function reading(stream, unseen, process) {
  return h('section', { class: 'panel late', key: 'unseen' }, h('h2', null, 'Not available'),
    unseenList(unseen),
    h('p', { class: 'faint' }, `${count(stream.events)} events (${bytes(stream.bytes)}) in ${count(stream.sessions)} ${stream.sessions === 1 ? 'session' : 'sessions'}, ${process.lag_ns === null ? 'lag unknown' : `lag ${duration(process.lag_ns)}`}${stream.healings ? `, repaired ${stream.healings === 1 ? 'once' : `${stream.healings} times`} after trace sessions` : ''}`));
}

function resource(attributes) {
  return h('details', { class: 'panel', key: 'resource' }, h('summary', null, 'Attributes'),
    h('div', { class: 'scroll' }, h('table', null, h('tbody', null, Object.entries(attributes).sort().map(([name, value]) => h('tr', null, h('th', { scope: 'row' }, name), h('td', null, Array.isArray(value) ? value.join(', ') : String(value))))))));
}

export function trendNote(history) {
  const lean = trend(history);
  if (!lean) return null;
  return `Live heap ${lean.slope > 0 ? 'grows' : 'shrinks'} by ${bytes(Math.abs(lean.slope))}/min over the last ${Math.round((lean.to - lean.from) / 60000)} min (dotted line).`;
}

function render() {
  const main = document.getElementById('main');
  if (gone && !record) {
    const known = gone.incidents.map((incident) => incident.service ?? incident.process).find((name) => name);
    show(main, [
      h('div', { class: 'headline', key: 'gone' }, h('p', { class: 'crumbs' }, h('a', { href: '/' }, 'Overview'), ' / ', `pid ${gone.pid}`),
        h('h1', null, known ? `${known} has exited` : `No process with pid ${gone.pid} is known`),
        h('p', { class: 'faint' }, known ? `The pid was ${gone.pid}.` : 'The process exited more than an hour ago, or is not a .NET process.')),
      gone.incidents.length ? h('section', { key: 'incidents' }, h('h2', null, 'Incidents of the process'), h('div', { class: 'incidents' }, gone.incidents.map((incident) => incidentCard(incident)))) : null,
      h('p', { key: 'back' }, h('a', { href: '/' }, 'All processes')),
    ]);
    return;
  }
  if (!record) return;
  const { process, memory, history, pauses } = record;
  document.title = `${process.name} · gcwatch`;
  const incidents = gone?.incidents ?? record.incidents;
  // All incidents of an exited process are shown like open incidents, because no later state of the process exists.
  const isOver = Boolean(gone) || process.state === 'ended';
  const [open, ended] = isOver ? [incidents, []] : [incidents.filter((incident) => incident.until === null), incidents.filter((incident) => incident.until !== null)];
  const isRead = process.minute !== null;
  const step = span(shownHistory().bucket_ms / 1000);
  const link = (number) => `/processes/${process.pid}/collections/${number}`;
  const kept = new Set([...record.longest, ...record.newest].map((line) => line.number));
  show(main, [
    head(process, process.severity ?? open[0]?.severity),
    isOver ? exited(process) : null,
    isRead ? verdict(record, open) : null,
    open.length ? h('section', { class: 'incidents full', key: 'incidents' }, open.map((incident) => incidentCard(incident, { named: false }))) : null,
    ended.length ? h('details', { class: 'ended-list', key: 'ended' }, h('summary', null, `${ended.length} resolved ${ended.length === 1 ? 'incident' : 'incidents'}`), h('div', { class: 'incidents' }, ended.map((incident) => incidentCard(incident, { named: false })))) : null,
    record.notes.length ? notes(record) : null,
    isRead ? facts(process, memory) : null,
    isRead ? ranges(marksOf(record)) : null,
    isRead ? h('div', { class: 'charts', key: 'charts', ...pointing },
      chart('Pauses', `${pauses.number.length >= 512 ? `The ${count(pauses.number.length)} newest collections, one mark each; before them, the longest of each ${step}.` : `${count(pauses.number.length)} collections, one mark each; logarithmic.`}`, 'pauses',
        marksLegend(pauses), isCrowded(record) ? h('button', { class: 'quiet', type: 'button', id: 'near', 'aria-pressed': String(near), onclick: () => choose({ near: !near }) }, near ? 'Show the whole time' : 'Show only the marks') : null),
      chart('Heap after collections', (minutes > 30 ? null : trendNote(history)) || `Last value of each ${step}, by generation.`, 'heap',
        heapLegend(history, memory.heap_limit)),
      chart('Stopped time', `Share of each ${step} during which all threads were suspended.`, 'stopped'),
      chart('Allocation', 'Bytes per second.', 'allocation')) : null,
    isRead ? sides([
      changesPanel(record.changes), causes(record.causes), account(record.account, 'Since gcwatch attached'), requests(process, (number) => (kept.has(number) ? link(number) : null)),
      lines('Longest collections', 'From the last half hour, with full data.', record.longest, 'longest', link),
      lines('Newest collections', 'With full data.', record.newest, 'newest', link),
    ], [memoryPanel(memory), sizingPanel(record.sizing, process.pid), settings(record.settings, process), reading(record.stream, record.unseen, process)])
      : h('div', { class: 'columns', key: 'unread' }, reading(record.stream, record.unseen, process)),
    resource(record.resource),
  ]);
  draw();
}

// The page shows the state at the end of the process.
function exited(process) {
  const at = process.since ? Date.parse(process.since) : record.at_ms;
  return h('p', { class: 'note bad', key: 'gone' }, h('b', null, 'The process has exited'), process.detail ? `: ${process.detail}` : '', `. The page shows the last half hour of the process, until ${timeOfDay(at)}`, process.since ? [' (', ago(process.since), ')'] : '', '.');
}

// Returns the notes: facts without harm.
function notes({ notes, process, incidents }) {
  const known = new Set(incidents.filter((one) => one.until === null).flatMap((one) => one.causes.map((cause) => cause.rule)));
  const all = notes.filter((note) => !known.has(note.rule));
  if (!all.length) return null;
  return h('details', { class: 'ended-list', key: 'notes' },
    h('summary', null, `${all.length} ${all.length === 1 ? 'note' : 'notes'}: ${all.map((note) => note.title).join('; ')}`),
    h('ul', { class: 'members' }, all.map((note) => h('li', { key: note.rule },
      h('b', null, note.title), ' ', h('code', null, note.rule), h('p', null, prose(note.summary, process.pid), ' ', h('span', { class: 'faint' }, prose(note.remedy, process.pid)))))));
}

function draw() {
  if (!record) return;
  const place = (id, make) => {
    const element = document.getElementById(`chart-${id}`);
    if (element) show(element, make(shown, Math.max(280, element.clientWidth), go));
  };
  record.marks = marksOf(record);
  const history = shownHistory();
  const [at, whole] = [record.at_ms, history.span_ms];
  record.chosen = zoomed ?? (minutes && minutes * 60000 < whole ? [at - minutes * 60000, at] : null);
  const shown = { ...record, history };
  place('pauses', (one, width, open) => pauseChart(one, width, open, !one.chosen && near && isCrowded(one)));
  place('stopped', stoppedChart);
  place('heap', heapChart);
  place('allocation', allocationChart);
}

export function open(pid, navigate) {
  record = null;
  gone = null;
  [stopped, refused, asked] = [null, null, 0];
  [long, longAsked] = [null, [0, null]];
  readUrl();
  hideTip();
  go = (number) => {
    hideTip();
    navigate(`/processes/${pid}/collections/${number}`);
  };
  document.title = `pid ${pid} · gcwatch`;
  follow(`view=process&pid=${encodeURIComponent(pid)}`, {
    process: (next) => {
      gone = null;
      record = next;
      showDashboards(next.grafana_url);
      render();
      askRequests(record.process.pid);
      askLong(record.process.pid);
    },
    still: (next) => {
      if (record) record.at_ms = next.at_ms;
      render();
      if (record) askRequests(record.process.pid);
    },
    gone: (next) => {
      gone = next;
      render();
    },
  });
  return { render };
}
