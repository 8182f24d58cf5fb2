// A recording in one file: what the page of a process shows, as far as a recording knows it.

import { h, legend, show, swatch } from './dom.js';
import { DASH, absolute, bytes, count, duration, exact, kind, percent, rate, recorded } from './format.js';
import { allocationChart, heapChart, hideTip, pauseChart, stoppedChart } from './charts.js';
import { incidentCard } from './incidents.js';
import { causes, chart, fact, heapLegend, lines, marksLegend, trendNote, unseenList } from './process.js';
import { requestsPanel } from './requests.js';
import { because, drawTimeline, figures, panels } from './collection.js';

const report = JSON.parse(document.getElementById('record').textContent);
const end = (report.started ? Date.parse(report.started) : 0) + report.observed_ns / 1e6;
let process = report.processes[0] ?? null;
// The collection that is shown in full.
let number = null;

// Processes of one recording have collections of the same numbers: an address names both.
const link = (other) => `#process-${report.processes.indexOf(process) + 1}-collection-${other}`;

function head() {
  const others = report.processes.filter((other) => other !== process);
  return h('div', { class: 'headline', key: 'head' },
    h('p', { class: 'crumbs' }, 'gcwatch, a recording'),
    h('h1', null, report.file),
    report.command_line ? h('p', { class: 'faint' }, h('code', null, report.command_line)) : null,
    h('p', { class: 'faint' }, [process?.name, report.runtime ? `.NET ${report.runtime}` : null, process?.collector, report.started ? absolute(Date.parse(report.started)) : null, `${duration(report.observed_ns)} observed`].filter(Boolean).join(' · ')),
    others.length ? h('p', { class: 'others' }, 'Also in it: ', others.map((other) => h('button', { class: 'quiet', type: 'button', onclick: () => { location.hash = `#process-${report.processes.indexOf(other) + 1}`; } }, other.name))) : null);
}

// The first question: is it the collector at all.
function verdict({ summary }) {
  const share = summary.stopped_share;
  if (share === null || !summary.count) return ['', 'No collection was recorded.'];
  const least = summary.lower_bounds ? 'at least ' : '';
  if (share >= 0.2) return ['bad', `Yes: it stopped the process for ${least}${percent(share)} of the time.`];
  if (share >= 0.05) return ['mid', `In part: it stopped the process for ${least}${percent(share)} of the time.`];
  if (summary.max_ns > 5e8) return ['mid', `Hardly in all (${percent(share)}), but a single pause took ${duration(summary.max_ns)}.`];
  return ['calm', `Hardly: it stopped the process for ${least}${percent(share)} of the time, at most ${duration(summary.max_ns)} at once.`];
}

function facts({ summary, mean_ns: mean, largest_heap: largest, induced }) {
  const seconds = report.observed_ns / 1e9;
  return h('div', { class: 'facts', key: 'facts' },
    fact('Stopped', percent(summary.stopped_share), `${summary.lower_bounds ? 'at least ' : ''}${duration(summary.stopped_ns)} of ${duration(report.observed_ns)}`),
    fact('Longest pause', duration(summary.max_ns), `mean ${duration(mean)}, median ${duration(summary.p50_ns)}, p99 ${duration(summary.p99_ns)}`),
    fact('Collections', count(summary.count), `${rate(summary.count, report.observed_ns)} a second; ${induced ? `${count(induced)} asked for by code` : 'none asked for by code'}`),
    fact('Allocation', summary.allocated === null || !seconds ? DASH : `${bytes(summary.allocated / seconds)}/s`, summary.allocated === null ? 'not known' : `${bytes(summary.allocated)} in all`),
    fact('Largest heap', h('span', { title: exact(largest) }, bytes(largest)), 'before or after a collection'),
    fact('Promoted', bytes(summary.promoted), 'survived a collection'));
}

function kinds({ summary }) {
  return h('section', { class: 'panel', key: 'kinds' }, h('h2', null, 'By generation and kind'),
    h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Collection'), ['Count', 'Stopped', 'Median', 'p99', 'Longest'].map((title) => h('th', { class: 'n', scope: 'col' }, title)))),
      h('tbody', null, summary.groups.map((group) => h('tr', null,
        h('td', null, kind(group.generation, group.type), group.type ? null : h('span', { class: 'sub' }, 'its kind was not seen')),
        h('td', { class: 'n' }, count(group.count)),
        [group.pause_ns, group.p50_ns, group.p99_ns, group.max_ns].map((ns) => h('td', { class: 'n' }, duration(ns)))))))));
}

const LINES = [['live', 'Live objects', 'live'], ['free', 'Free between them', 'free'], ['committed_unused', 'Committed and unused', 'unused'], ['bookkeeping', 'Tables of the collector', 'tables']];

function memory({ summary }) {
  const { ledger } = summary;
  if (!ledger) return null;
  const known = LINES.filter(([name]) => ledger[name] !== null);
  const all = Math.max(1, known.reduce((sum, [name]) => sum + ledger[name], 0));
  return h('section', { class: 'panel', key: 'memory' }, h('h2', null, 'The heap after the last collection'),
    h('div', { class: 'stack', role: 'img', 'aria-label': known.map(([name, label]) => `${label} ${bytes(ledger[name])}`).join(', ') }, known.map(([name, label, color]) => h('span', { class: `ledger-${color}`, title: `${label}: ${bytes(ledger[name])}`, style: { width: `${((ledger[name] / all) * 100).toFixed(2)}%` } }))),
    h('table', { class: 'ledger' }, h('tbody', null, known.map(([name, label, color]) => h('tr', null, h('th', { scope: 'row' }, swatch(`ledger-${color}`), ' ', label), h('td', { class: 'n', title: exact(ledger[name]) }, bytes(ledger[name])))))));
}

function close() {
  location.hash = `#process-${report.processes.indexOf(process) + 1}`;
}

// One collection in full, below the charts.
function chosen() {
  if (number === null) return null;
  const gc = process.full.find((one) => one.number === number);
  const line = process.longest.find((one) => one.number === number) ?? gc;
  const button = h('button', { class: 'quiet', type: 'button', onclick: close }, 'Close');
  if (!gc) return h('section', { class: 'panel', key: 'chosen', id: 'chosen' }, h('h2', null, `Collection ${number}`, ' ', button), h('p', null, 'This report has the longest collections in full, and those of incidents. The recording has this one, too: '), h('p', null, h('code', null, `gcwatch analyze ${report.file} --gc ${number}`)));
  return h('section', { key: 'chosen', id: 'chosen' },
    h('h2', null, `Collection ${number}: ${kind(line.generation, line.type)}`, ' ', button),
    h('p', { class: 'faint' }, (line.start ?? line.start_time) ? absolute(Date.parse(line.start ?? line.start_time)) : DASH, because(line)),
    figures(line, gc), panels(gc, link));
}

function marks({ pauses, summary }) {
  const drawn = pauses.number.length;
  return drawn < summary.count ? `Of ${count(summary.count)} collections ${count(drawn)}, of each part of the time the longest.` : `${count(drawn)} collections, one mark each.`;
}

function heapNote({ heap }) {
  const drawn = heap.at_ms.length;
  if (!drawn) return null;
  return drawn < heap.of ? `After ${count(drawn)} of ${count(heap.of)} collections: of each part of the time the largest.` : 'After each collection.';
}

function render() {
  const main = document.getElementById('main');
  document.title = `${report.file} · gcwatch`;
  if (!process) return show(main, [head(), h('p', { class: 'note', key: 'none' }, 'The recording has no process with collections.'), h('section', { class: 'panel', key: 'unseen' }, unseenList(report.unseen))]);
  const [level, sentence] = verdict(process);
  const { history, incidents, pauses } = process;
  show(main, [
    head(),
    h('p', { class: `verdict ${level}`, key: 'verdict' }, h('b', null, 'Is it the collector? '), sentence),
    incidents === null ? h('p', { class: 'faint', key: 'norules' }, 'Rules were not evaluated.')
      : incidents.length ? h('section', { class: 'incidents', key: 'incidents' }, incidents.map((incident) => incidentCard({ ...incident, command: null }, { named: false }))) : h('p', { key: 'well' }, 'No rule found anything wrong.'),
    facts(process),
    h('div', { class: 'charts', key: 'charts' },
      chart('Pauses', `${marks(process)} Logarithmic.`, 'pauses', marksLegend(pauses)),
      chart('Time stopped', `Share of each ${duration(history.bucket_ms * 1e6)} in which all its threads were suspended.`, 'stopped'),
      chart('Heap after collections', [heapNote(process), trendNote(history)].filter(Boolean).join(' '), 'heap', heapLegend(process.heap)),
      chart('Allocation', 'Bytes per second, of each collection spread over the time before it.', 'allocation')),
    chosen(),
    report.requests ? requestsPanel(report.requests, link) : null,
    h('div', { class: 'columns', key: 'tables' }, causes(process.causes, 'In this recording'), kinds(process), memory(process),
      lines('Longest collections', 'In this recording.', process.longest.slice(0, 20), 'longest', link),
      h('section', { class: 'panel', key: 'unseen' }, h('h2', null, 'What was not seen, and why'), unseenList(report.unseen))),
    h('p', { class: 'faint', key: 'made' }, `Made by gcwatch ${report.version}.`),
  ]);
  draw();
}

function draw() {
  // The charts take what the page of a process has.
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
  if (named) process = report.processes[Number(named[1]) - 1] ?? process;
  render();
  document.getElementById('chosen')?.scrollIntoView();
}

recorded();
addEventListener('hashchange', follow);
addEventListener('resize', () => process && draw());
addEventListener('keydown', (event) => event.key === 'Escape' && number !== null && close());
follow();
