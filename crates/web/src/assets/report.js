// Report of recordings in one file: the content of the page of a process that recordings contain.

import { h, legend, show, swatch } from './dom.js';
import { DASH, absolute, bytes, count, duration, exact, kind, percent, rate, recorded, severity } from './format.js';
import { allocationChart, heapChart, hideTip, pauseChart, stoppedChart } from './charts.js';
import { accountBar } from './account.js';
import { incidentCard } from './incidents.js';
import { account, answer, answers, causes, chart, fact, heapLegend, lines, marksLegend, sides, trendNote, unseenList } from './process.js';
import { requestsPanel } from './requests.js';
import { because, drawTimeline, figures, panels } from './collection.js';

const page = JSON.parse(document.getElementById('record').textContent);
// All processes of all recordings; a recording without processes has one place.
const places = page.recordings.flatMap((recording) => (recording.processes.length ? recording.processes.map((process) => ({ recording, process })) : [{ recording, process: null }]));
// Index of the selected place.
let place = 0;
let { recording: report, process } = places[0];
// Number of the collection that is shown in full.
let number = null;

// Processes can have collections with the same numbers, so an address contains the process and the collection.
const address = (other) => `#process-${other + 1}`;
const link = (other) => `${address(place)}-collection-${other}`;

function choose(other) {
  place = other;
  ({ recording: report, process } = places[place]);
}

// Returns the table of all recordings and processes.
function contents() {
  if (places.length < 2) return null;
  const several = page.recordings.length > 1;
  const cells = ({ recording, process: one }) => {
    if (!one) return h('td', { colspan: 6 }, 'no process with collections');
    const { summary, incidents } = one;
    const seconds = recording.observed_ns / 1e9;
    return [
      h('td', { class: 'n' }, percent(summary.stopped_share)), h('td', { class: 'n' }, duration(summary.max_ns)), h('td', { class: 'n' }, count(summary.count)),
      h('td', { class: 'n' }, summary.allocated === null || !seconds ? DASH : `${summary.allocated_lower_bound ? '≥ ' : ''}${bytes(summary.allocated / seconds)}`), h('td', { class: 'n', title: exact(one.largest_heap) }, bytes(one.largest_heap)),
      h('td', null, incidents === null ? DASH : incidents.length ? [severity(incidents[0].severity, false), ` ${incidents[0].title}`, incidents.length > 1 ? h('span', { class: 'faint' }, ` and ${incidents.length - 1} more`) : null] : 'none'),
    ];
  };
  return h('section', { class: 'panel', key: 'contents' }, h('h2', null, several ? `${count(page.recordings.length)} recordings` : 'Processes'),
    h('div', { class: 'scroll' }, h('table', { class: 'contents' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, several ? 'Recording' : 'Process'), ['Stopped', 'Longest', 'Collections', 'Allocated/s', 'Largest heap'].map((title) => h('th', { class: 'n', scope: 'col' }, title)), h('th', { scope: 'col' }, 'Incidents'))),
      h('tbody', null, places.map((one, other) => {
        const name = one.process?.name ?? DASH;
        const opened = (text) => h('a', { href: address(other), 'aria-current': other === place ? 'true' : null }, text);
        return h('tr', { class: other === place ? 'chosen' : null }, several ? h('td', null, opened(one.recording.file), h('span', { class: 'sub' }, name)) : h('td', null, opened(name)), cells(one));
      })))));
}

function head() {
  return h('div', { class: 'headline', key: 'head' },
    h('p', { class: 'crumbs' }, page.recordings.length > 1 ? `gcwatch, one of ${page.recordings.length} recordings` : 'gcwatch, a recording'),
    h('h1', null, report.file),
    report.command_line ? h('p', { class: 'faint' }, h('code', null, report.command_line)) : null,
    h('p', { class: 'faint' }, [process?.name, report.runtime ? `.NET ${report.runtime}` : null, process?.collector, report.started ? absolute(Date.parse(report.started)) : null, `${duration(report.observed_ns)} observed`].filter(Boolean).join(' · ')));
}

// Returns the answer to the first question: whether pauses slow down the process.
function verdict({ summary }) {
  const share = summary.stopped_share;
  if (share === null || !summary.count) return ['', 'Unknown', 'no recorded collections'];
  const least = summary.lower_bounds ? 'at least ' : '';
  const figures = `GC pauses took ${least}${percent(share)} of the time, the longest ${duration(summary.max_ns)}`;
  if (share >= 0.2) return ['bad', 'Yes', figures];
  if (share >= 0.05 || summary.max_ns > 5e8) return ['mid', 'Partly', figures];
  return ['calm', 'No', figures];
}

// Returns the findings of the rules, and the rules that could not be judged: a short recording is not proof of health.
function found({ incidents, judged }) {
  if (incidents === null) return h('p', { class: 'faint', key: 'norules' }, 'Rules were not evaluated.');
  const missing = judged ? judged.too_short.length + judged.unknown.length : 0;
  const why = judged ? [[judged.too_short.length, 'need a longer recording'], [judged.unknown.length, 'need values, settings or limits that the recording does not contain']].filter(([number]) => number).map(([number, text]) => `${number} ${text}`).join(', ') : '';
  return [
    incidents.length ? h('section', { class: 'incidents full', key: 'incidents' }, incidents.map((incident) => incidentCard({ ...incident, command: null }, { named: false })))
      : h('p', { key: 'well' }, missing ? `No incident in this recording: ${judged.judged} of ${judged.rules} rules could be judged.` : 'No incident.'),
    judged?.so_far.length ? h('section', { class: 'panel', key: 'sofar' }, h('h2', null, 'Preliminary findings of a recording that is too short'),
      h('ul', { class: 'members' }, judged.so_far.map((rule) => h('li', null, severity(rule.severity), ' ', rule.summary, ' ', h('code', null, rule.rule))))) : null,
    missing ? h('p', { class: 'faint', key: 'judged' }, `Not judged: ${missing} of ${judged.rules} rules; ${why}.`) : null,
  ];
}

function facts({ summary, mean_ns: mean, largest_heap: largest, induced }) {
  const seconds = report.observed_ns / 1e9;
  return h('div', { class: 'facts', key: 'facts' },
    fact('Stopped', percent(summary.stopped_share), `${summary.lower_bounds ? 'at least ' : ''}${duration(summary.stopped_ns)} of ${duration(report.observed_ns)}`),
    fact('Longest pause', duration(summary.max_ns), `mean ${duration(mean)}, median ${duration(summary.p50_ns)}, p99 ${duration(summary.p99_ns)}`),
    fact('Collections', count(summary.count), `${rate(summary.count, report.observed_ns)} per second; ${induced ? `${count(induced)} induced by code` : 'none induced by code'}`),
    fact('Allocation', summary.allocated === null || !seconds ? DASH : `${bytes(summary.allocated / seconds)}/s`, summary.allocated === null ? 'unknown' : `${summary.allocated_lower_bound ? 'at least ' : ''}${bytes(summary.allocated)} in total`),
    fact('Largest heap', h('span', { title: exact(largest) }, bytes(largest)), 'before or after a collection'),
    fact('Promoted', bytes(summary.promoted), 'survived a collection'));
}

function kinds({ summary }) {
  return h('section', { class: 'panel', key: 'kinds' }, h('h2', null, 'Collections by generation and kind'),
    h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Collection'), ['Count', 'Stopped', 'Median', 'p99', 'Longest'].map((title) => h('th', { class: 'n', scope: 'col' }, title)))),
      h('tbody', null, summary.groups.map((group) => h('tr', null,
        h('td', null, kind(group.generation, group.type), group.type ? null : h('span', { class: 'sub' }, 'kind unknown')),
        h('td', { class: 'n' }, count(group.count)),
        [group.max_ns === null ? null : group.pause_ns, group.p50_ns, group.p99_ns, group.max_ns].map((ns) => h('td', { class: 'n' }, duration(ns)))))))));
}

const LINES = [['live', 'Live objects', 'live'], ['not_looked_at', 'Old objects, not looked at', 'unseen'], ['free', 'Free between them', 'free'], ['committed_unused', 'Committed, unused', 'unused'], ['bookkeeping', 'GC tables', 'tables']];

function memory({ summary }) {
  const { ledger } = summary;
  if (!ledger) return null;
  const known = LINES.filter(([name]) => ledger[name] !== null);
  const all = Math.max(1, known.reduce((sum, [name]) => sum + ledger[name], 0));
  return h('section', { class: 'panel', key: 'memory' }, h('h2', null, 'Heap after the last collection'),
    h('div', { class: 'stack', role: 'img', 'aria-label': known.map(([name, label]) => `${label} ${bytes(ledger[name])}`).join(', ') }, known.map(([name, label, color]) => h('span', { class: `ledger-${color}`, title: `${label}: ${bytes(ledger[name])}`, style: { width: `${((ledger[name] / all) * 100).toFixed(2)}%` } }))),
    h('table', { class: 'ledger' }, h('tbody', null, known.map(([name, label, color]) => h('tr', null, h('th', { scope: 'row' }, swatch(`ledger-${color}`), ' ', label), h('td', { class: 'n', title: exact(ledger[name]) }, bytes(ledger[name])))))));
}

function close() {
  location.hash = address(place);
}

// Returns one collection in full, below the charts.
function chosen() {
  if (number === null) return null;
  const gc = process.full.find((one) => one.number === number);
  const line = process.longest.find((one) => one.number === number) ?? gc;
  const button = h('button', { class: 'quiet', type: 'button', onclick: close }, 'Close');
  if (!gc) return h('section', { class: 'panel', key: 'chosen', id: 'chosen' }, h('h2', null, `Collection ${number}`, ' ', button), h('p', null, 'This report contains full data only for the longest collections and the collections of incidents. Command for the full data of this collection:  '), h('p', null, h('code', null, `gcwatch analyze ${report.file} --gc ${number}`)));
  return h('section', { key: 'chosen', id: 'chosen' },
    h('h2', null, `Collection ${number}: ${kind(line.generation, line.type)}`, ' ', button),
    h('p', { class: 'faint' }, (line.start ?? line.start_time) ? absolute(Date.parse(line.start ?? line.start_time)) : DASH, because(line)),
    figures(line, gc), panels(gc, link));
}

function marks({ pauses, summary }) {
  const drawn = pauses.number.length;
  return drawn < summary.count ? `${count(drawn)} of ${count(summary.count)} collections: the longest of each time interval.` : `${count(drawn)} collections, one mark each.`;
}

function heapNote({ heap }) {
  const drawn = heap.at_ms.length;
  if (!drawn) return null;
  return drawn < heap.of ? `After ${count(drawn)} of ${count(heap.of)} collections: the largest heap of each time interval.` : 'After each collection.';
}

function render() {
  const main = document.getElementById('main');
  document.title = `${report.file} · gcwatch`;
  if (!process) return show(main, [contents(), head(), h('p', { class: 'note', key: 'none' }, 'The recording has no process with collections.'), h('section', { class: 'panel', key: 'unseen' }, unseenList(report.unseen))]);
  const latency = verdict(process);
  const { history, pauses } = process;
  show(main, [
    contents(),
    head(),
    answers([[latency[0], answer('Do GC pauses slow down the process?', latency, accountBar(process.summary.account))]]),
    found(process),
    facts(process),
    h('div', { class: 'charts', key: 'charts' },
      chart('Pauses', `${marks(process)} Logarithmic.`, 'pauses', marksLegend(pauses)),
      chart('Heap after collections', [heapNote(process), trendNote(history)].filter(Boolean).join(' '), 'heap', heapLegend(process.heap)),
      chart('Stopped time', `Share of each ${duration(history.bucket_ms * 1e6)} during which all threads were suspended.`, 'stopped'),
      chart('Allocation', 'Bytes per second; the bytes of each collection are spread over the time before the collection.', 'allocation')),
    chosen(),
    report.requests ? requestsPanel(report.requests, link) : null,
    sides([causes(process.causes, 'In this recording'), account(process.summary.account, 'In this recording'), lines('Longest collections', 'In this recording.', process.longest.slice(0, 20), 'longest', link)], [
      kinds(process), memory(process),
      h('section', { class: 'panel', key: 'unseen' }, h('h2', null, 'Not available'), unseenList(report.unseen))]),
    h('p', { class: 'faint', key: 'made' }, `Created by gcwatch ${page.version}.`),
  ]);
  draw();
}

function draw() {
  // The charts use a record like the page of a process.
  const end = (report.started ? Date.parse(report.started) : 0) + report.observed_ns / 1e6;
  const record = { at_ms: end, history: process.history, heap: process.heap, pauses: process.pauses, process: { heap_limit: null } };
  const open = (other) => { location.hash = link(other); };
  for (const [id, make] of [['pauses', pauseChart], ['stopped', stoppedChart], ['heap', heapChart], ['allocation', allocationChart]]) {
    const element = document.getElementById(`chart-${id}`);
    if (element) show(element, make(record, Math.max(280, element.clientWidth), open));
  }
  drawTimeline(process.full.find((one) => one.number === number));
}

function follow() {
  const named = /^#process-(\d+)(?:-collection-(\d+))?$/.exec(location.hash);
  number = named?.[2] ? Number(named[2]) : null;
  hideTip();
  const other = named ? Number(named[1]) - 1 : 0;
  if (places[other]) choose(other);
  render();
  document.getElementById('chosen')?.scrollIntoView();
}

recorded();
addEventListener('hashchange', follow);
addEventListener('resize', () => process && draw());
addEventListener('keydown', (event) => event.key === 'Escape' && number !== null && close());
follow();
