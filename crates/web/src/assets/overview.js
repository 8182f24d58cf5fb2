// View of all processes: incidents first, then a table.

import { h, lazy, show } from './dom.js';
import { DASH, SEVERITIES, ago, bytes, count, duration, exact, percent, rate, severity, since, zone } from './format.js';
import { spark } from './charts.js';
import { incidentLine, showDashboards } from './incidents.js';
import { follow } from './live.js';

const MOST_INCIDENTS = 20;
const READ = new Set(['attached', 'attaching', 'detached', 'found']);

const number = (value) => (value === null || value === undefined ? -1 : value);
const perSecond = (row) => (row.minute?.allocated == null || !row.minute.window_ns ? null : row.minute.allocated / (row.minute.window_ns / 1e9));
const all = (minute) => (minute ? minute.gen0 + minute.gen1 + minute.gen2 + minute.background : -1);
const limitOf = (row) => row.heap_limit ?? row.container_limit;
const fill = (row) => (row.heap_after !== null && limitOf(row) ? row.heap_after / limitOf(row) : null);

// Columns, with the sort value of a row and the priority (`wide`) on a narrow screen.
const COLUMNS = [
  { id: 'state', title: '', label: 'severity', sort: (row) => SEVERITIES.indexOf(row.severity) * 1000 + number(row.minute?.stopped_share), down: true },
  { id: 'name', title: 'Process', sort: (row) => row.name.toLowerCase() },
  { id: 'runtime', title: '.NET', sort: (row) => row.runtime ?? '', wide: 2 },
  { id: 'stopped', title: 'Stopped', note: 'share of the last minute during which all threads were suspended', sort: (row) => number(row.minute?.stopped_share), down: true },
  { id: 'longest', title: 'Longest', note: 'longest pause in the last minute', sort: (row) => number(row.minute?.longest_ns), down: true, wide: 0 },
  { id: 'p99', title: 'p99', note: '99th percentile of the pauses in the last minute', sort: (row) => number(row.minute?.p99_ns), down: true, wide: 2 },
  { id: 'gcs', title: 'GC/s', parts: ['0', '1', '2', 'bg'], note: 'collections per second: generation 0, 1, 2 and background', sort: (row) => all(row.minute), down: true, wide: 1 },
  { id: 'allocated', title: 'Allocated/s', sort: (row) => number(perSecond(row)), down: true, wide: 2 },
  { id: 'heap', title: 'Heap', note: 'after the newest collection, with the limit', sort: (row) => number(row.heap_after), down: true },
  { id: 'spark', title: '30 min', note: 'heap (line) and stopped time (bars; full height is 20 %)', wide: 0 },
  { id: 'note', title: 'Status', note: 'state, lag and lost events', sort: (row) => number(row.lag_ns), down: true, wide: 2 },
];

const state = { query: '', sort: 'state', down: true, unread: false, only: 'all', open: new Set() };
let record = null;
let sparks = new Map();

function readUrl() {
  const query = new URLSearchParams(location.search);
  state.query = query.get('q') ?? '';
  const column = COLUMNS.find((known) => known.id === query.get('sort') && known.sort);
  state.sort = column?.id ?? 'state';
  state.down = query.has('dir') ? query.get('dir') === 'down' : Boolean((column ?? COLUMNS[0]).down);
  state.unread = query.get('unread') === '1';
  state.only = query.get('only') === 'incidents' ? 'incidents' : 'all';
  state.open = new Set((query.get('open') ?? '').split(',').filter(Boolean));
}

function writeUrl() {
  const query = new URLSearchParams();
  if (state.query) query.set('q', state.query);
  if (state.sort !== 'state' || !state.down) {
    query.set('sort', state.sort);
    query.set('dir', state.down ? 'down' : 'up');
  }
  if (state.unread) query.set('unread', '1');
  if (state.only !== 'all') query.set('only', state.only);
  if (state.open.size) query.set('open', [...state.open].join(','));
  const text = query.toString();
  history.replaceState(history.state, '', text ? `/?${text}` : '/');
}

const key = (row) => `${row.pid}-${row.start_time}`;

const matches = (text) => state.query.toLowerCase().split(/\s+/).filter(Boolean).every((word) => text.includes(word));

const incidentFits = (incident) => matches([incident.title, incident.severity, incident.symptom, incident.service, incident.process, incident.resource?.['k8s.pod.name'], incident.pid].filter(Boolean).join(' ').toLowerCase());

function fits(row) {
  if (state.only === 'incidents' && !row.incidents) return false;
  const text = [row.name, row.process, row.pod, row.namespace, row.container, row.pid, row.runtime, row.collector, row.state, row.reason].filter((part) => part !== null).join(' ').toLowerCase();
  return matches(text);
}

function sorted(rows) {
  const column = COLUMNS.find((known) => known.id === state.sort);
  const by = (row) => [column.sort(row), row.name, row.pid];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return rows.map((row) => [by(row), row]).sort(([a], [b]) => {
    const first = compare(a[0], b[0]);
    return (state.down ? -first : first) || compare(a[1], b[1]) || compare(a[2], b[2]);
  }).map(([, row]) => row);
}

function meter(share, title) {
  if (share === null) return null;
  const level = share > 0.9 ? 'high' : share > 0.75 ? 'mid' : '';
  return h('span', { class: `meter ${level}`, title }, h('span', { style: { width: `${Math.min(100, share * 100).toFixed(1)}%` } }));
}

function notes(row) {
  const parts = [];
  if (row.state !== 'attached') parts.push(row.state.replace('_', ' '));
  if (row.lag_ns > 2e9) parts.push(`lag ${duration(row.lag_ns)}`);
  if (row.lost_events) parts.push(`${count(row.lost_events)} events lost`);
  return parts.join(', ');
}

function collections(row) {
  const { minute } = row;
  if (!minute) return DASH;
  const parts = [['g0', minute.gen0], ['g1', minute.gen1], ['g2', minute.gen2], ['bg', minute.background]];
  return h('span', { class: 'kinds', title: `in the last minute: generation 0 ${minute.gen0}, 1 ${minute.gen1}, 2 ${minute.gen2}, background ${minute.background}, including ${minute.induced} by GC.Collect` },
    parts.map(([name, value]) => h('span', { class: value ? name : 'none' }, rate(value, minute.window_ns))));
}

function heap(row) {
  const limit = limitOf(row);
  const title = `${exact(row.heap_after)}${limit ? ` of ${exact(limit)} (${row.heap_limit ? 'heap limit' : 'container limit'})` : ', no known limit'}`;
  return [h('span', { class: 'amount', title }, bytes(row.heap_after)), h('span', { class: 'of' }, limit ? ['of ', bytes(limit)] : ''), meter(fill(row), title)];
}

const CELLS = {
  state: (row) => severity(row.severity, false),
  name: (row) => [
    h('a', { href: `/processes/${row.pid}`, class: 'name' }, row.name),
    h('span', { class: 'sub' }, [row.pod, row.process !== row.name ? row.process : null, `pid\u00a0${row.pid}`].filter(Boolean).join(' · ')),
  ],
  runtime: (row) => [h('span', null, row.runtime ?? DASH), h('span', { class: 'sub' }, row.collector ?? '')],
  stopped: (row) => h('span', { class: row.minute?.stopped_share > 0.1 ? 'much' : row.minute?.stopped_share > 0.03 ? 'some' : '' }, percent(row.minute?.stopped_share)),
  longest: (row) => duration(row.minute?.longest_ns),
  p99: (row) => duration(row.minute?.p99_ns),
  gcs: collections,
  allocated: (row) => (perSecond(row) === null ? DASH : `${row.minute.allocated_lower_bound ? '≥ ' : ''}${bytes(perSecond(row))}`),
  heap,
  spark: (row) => spark(sparks.get(key(row))),
  note: (row) => h('span', { class: 'warnish' }, notes(row)),
};

const RIGHT = new Set(['stopped', 'longest', 'p99', 'gcs', 'allocated', 'heap']);

// The last column is present only if it has content.
const columnsFor = (rows) => COLUMNS.filter((column) => column.id !== 'note' || state.sort === 'note' || rows.some(notes));

// Groups processes of one service below a line with the number of processes with incidents.
function grouped(rows) {
  const services = new Map();
  const of = (row) => (row.service ? `${row.namespace ?? ''}/${row.service}` : key(row));
  rows.forEach((row) => services.set(of(row), [...(services.get(of(row)) ?? []), row]));
  return [...services].flatMap(([name, all]) => (all.length === 1 ? [{ row: all[0], inside: false }] : [
    { of: all.length, ill: all.filter((row) => row.incidents).length, severity: worst(all), name, title: all[0].service },
    ...all.map((row) => ({ row, inside: true })),
  ]));
}

const worst = (rows) => SEVERITIES[Math.max(...rows.map((row) => SEVERITIES.indexOf(row.severity)))] ?? null;

function groupElement(group, columns) {
  return h('tr', { class: 'group' },
    h('td', { class: 'c-state' }, severity(group.severity, false)),
    h('td', { colspan: columns.length - 1 }, h('b', null, group.title), ` ${group.ill ? `${group.ill} of ${group.of} processes with incidents` : `${group.of} processes`}`));
}

function rowElement(row, columns, inside) {
  return h('tr', {
    class: [row.severity ? `is-${row.severity}` : null, inside ? 'inside-group' : null].filter(Boolean).join(' ') || null,
    onclick: (event) => {
      if (event.target.closest('a') || getSelection().toString()) return;
      event.currentTarget.querySelector('a').click();
    },
  }, columns.map((column) => h('td', { class: classOf(column) }, CELLS[column.id](row))));
}

const classOf = (column) => `c-${column.id}${RIGHT.has(column.id) ? ' n' : ''}${column.wide === undefined ? '' : ` wide${column.wide}`}`;

function heading(column) {
  const active = state.sort === column.id;
  const label = column.title || h('span', { class: 'hidden' }, column.label);
  return h('th', { class: classOf(column), scope: 'col', 'aria-sort': active ? (state.down ? 'descending' : 'ascending') : null },
    column.sort
      ? h('button', {
        type: 'button', class: 'sort', title: column.note ?? column.label, 'data-sort': column.id,
        onclick: () => {
          state.down = active ? !state.down : Boolean(column.down);
          state.sort = column.id;
          writeUrl();
          render();
        },
      }, label, h('span', { class: 'arrow', 'aria-hidden': 'true' }, active ? (state.down ? '▾' : '▴') : ''),
        column.parts ? h('span', { class: 'kinds' }, column.parts.map((part) => h('span', null, part))) : null)
      : h('span', { title: column.note }, label));
}

function table(rows, shown, columns) {
  if (!rows.length) {
    return h('div', { class: 'empty', key: 'empty' },
      h('p', null, record.ready ? 'No .NET process is monitored on this host yet.' : 'gcwatch is searching for .NET processes.'),
      h('p', null, h('code', null, 'gcwatch ps'), ' lists the visible processes; ', h('code', null, 'gcwatch doctor'), ' shows why gcwatch cannot attach.'));
  }
  if (!shown.length) return h('div', { class: 'empty', key: 'none' }, h('p', null, 'No matching processes.  ', h('button', { type: 'button', class: 'quiet', onclick: clear }, 'Show all')));
  const holder = h('div', { class: 'scroll', key: 'table' }, h('table', { class: 'processes' },
    h('caption', { class: 'hidden' }, 'Monitored processes'),
    h('thead', { key: 'head' }, h('tr', null, columns.map(heading))),
    h('tbody', { key: 'rows', keep: true })));
  return holder;
}

function clear() {
  Object.assign(state, { query: '', only: 'all' });
  const box = document.getElementById('search');
  if (box) box.value = '';
  writeUrl();
  render();
}

const UNREAD = ['Process', 'State', 'Reason', 'What to do', 'Since'];

function unreadTable(rows) {
  return h('section', { class: 'unread', key: 'unread' },
    h('h2', null, 'Not monitored'),
    h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, UNREAD.map((title) => h('th', { scope: 'col' }, title)))),
      h('tbody', null, rows.map((row) => h('tr', { key: key(row) },
        h('td', null, h('a', { class: 'name', href: `/processes/${row.pid}` }, row.name), h('span', { class: 'sub' }, `pid ${row.pid}`)),
        h('td', null, row.reason ?? row.state.replace('_', ' ')),
        h('td', null, row.detail ?? (row.state === 'excluded' ? 'excluded by the configuration (targets.include, targets.exclude)' : DASH)),
        h('td', null, row.remedy ?? DASH),
        h('td', null, ago(row.since))))))));
}

// Returns names with counts, most frequent first: `dotnet build ×3, dotnet test`.
function names(rows) {
  const counts = new Map();
  rows.forEach((row) => counts.set(row.name, (counts.get(row.name) ?? 0) + 1));
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, times]) => (times > 1 ? `${name} ×${times}` : name)).join(', ') + (counts.size > 6 ? ' …' : '');
}

// Returns the highest listed severity of a process, including resolved incidents.
function worstOf(row) {
  const all = record.incidents.filter((incident) => incident.pid === row.pid).map((incident) => SEVERITIES.indexOf(incident.severity));
  return row.severity ?? SEVERITIES[Math.max(...all)] ?? null;
}

// Returns whether a process is a short build or tool: it exited within one minute and had no incident.
const isShort = (row) => worstOf(row) === null && (row.minute?.window_ns ?? 0) < 60e9;

function exitedTable(rows) {
  const [short, long] = [rows.filter(isShort), rows.filter((row) => !isShort(row))];
  const element = (row) => h('tr', { key: key(row), class: worstOf(row) ? `is-${worstOf(row)}` : null },
    h('td', { class: 'c-state' }, severity(worstOf(row), false)),
    h('td', null, CELLS.name(row)),
    h('td', null, 'exited ', ago(row.since), row.detail ? `: ${row.detail}` : ''),
    h('td', { class: 'n wide1' }, count(row.collections), h('span', { class: 'sub' }, 'collections')),
    h('td', { class: 'n' }, bytes(row.heap_after), h('span', { class: 'sub' }, 'last heap')));
  return h('section', { class: 'exited', key: 'exited' }, h('h2', null, 'Exited'),
    long.length ? h('div', { class: 'scroll' }, h('table', null, h('tbody', null, long.map(element)))) : null,
    short.length ? h('details', { key: 'short' }, h('summary', null, `${count(short.length)} exited within one minute after the start: ${names(short)}`),
      h('div', { class: 'scroll' }, h('table', null, h('tbody', null, short.map(element))))) : null);
}

// Returns the counts of processes that are not monitored or excluded.
function unmonitored(rows) {
  const excluded = rows.filter((row) => row.state === 'excluded').length;
  const others = rows.length - excluded;
  return [others ? `${count(others)} not monitored` : null, excluded ? `${count(excluded)} excluded` : null].filter(Boolean).map((text) => `, ${text}`).join('');
}

function headline(open, watched, unread) {
  const worst = open[0]?.severity;
  const sick = new Set(open.map((incident) => incident.service ?? incident.process ?? incident.pid)).size;
  return h('div', { class: 'headline', key: 'headline' },
    h('h1', null, open.length
      ? [severity(worst, false), ` ${open.length} ${open.length === 1 ? 'incident' : 'incidents'} on ${sick} ${sick === 1 ? 'service' : 'services'}`]
      : [h('span', { class: 'well', 'aria-hidden': 'true' }, '✓'), watched ? ' No open incidents' : ' No processes monitored yet']),
    h('p', { class: 'faint' }, `${count(watched)} .NET ${watched === 1 ? 'process' : 'processes'} monitored${record.host ? ` on ${record.host}` : ''}${unmonitored(unread)} · times in ${zone()}`));
}

function render() {
  if (!record) return;
  const main = document.getElementById('main');
  const rows = record.processes.filter((row) => READ.has(row.state));
  const unread = record.processes.filter((row) => !READ.has(row.state));
  const unended = record.incidents.filter((incident) => incident.until === null && incidentFits(incident));
  // Incidents for information must not precede other incidents.
  const [open, info] = [unended.filter((incident) => incident.severity !== 'info'), unended.filter((incident) => incident.severity === 'info')];
  const ended = record.incidents.filter((incident) => incident.until !== null && incidentFits(incident));
  const exited = (record.exited ?? []).filter(fits);
  const shown = sorted(rows.filter(fits));
  const sick = rows.filter((row) => row.incidents).length;
  const columns = columnsFor(shown);
  show(main, [
    headline(record.incidents.filter((incident) => incident.until === null && incident.severity !== 'info'), rows.length, unread),
    open.length ? h('section', { class: 'incidents', key: 'incidents', 'aria-label': 'Open incidents' },
      open.slice(0, MOST_INCIDENTS).map(line),
      open.length > MOST_INCIDENTS ? h('p', null, `and ${open.length - MOST_INCIDENTS} more: `, h('a', { href: '/api/v1/incidents' }, 'Show all as JSON')) : null) : null,
    info.length ? h('details', { class: 'ended-list', key: 'info' },
      h('summary', null, `${info.length} info ${info.length === 1 ? 'incident' : 'incidents'}`),
      h('div', { class: 'incidents' }, info.slice(0, MOST_INCIDENTS).map(line))) : null,
    ended.length ? h('details', { class: 'ended-list ended', key: 'ended' },
      h('summary', null, `${ended.length} resolved ${ended.length === 1 ? 'incident' : 'incidents'}, the newest `, since(ended[0].until), ' ago'),
      h('div', { class: 'incidents' }, ended.map(line))) : null,
    h('div', { class: 'tools', key: 'tools' },
      h('input', {
        id: 'search', type: 'search', placeholder: 'Search name, pod, pid …', 'aria-label': 'Search', title: 'Press / to search', value: state.query,
        oninput: (event) => { state.query = event.currentTarget.value; writeUrl(); render(); },
      }),
      h('label', { class: 'switch' }, h('input', { type: 'checkbox', id: 'only', checked: state.only === 'incidents', onchange: (event) => { state.only = event.currentTarget.checked ? 'incidents' : 'all'; writeUrl(); render(); } }), `only with incidents (${sick})`),
      unread.length ? h('label', { class: 'switch' }, h('input', { type: 'checkbox', id: 'unread', checked: state.unread, onchange: (event) => { state.unread = event.currentTarget.checked; writeUrl(); render(); } }), `show ${count(unread.length)} unmonitored`) : null,
      h('span', { class: 'faint' }, shown.length === rows.length ? '' : `${count(shown.length)} of ${count(rows.length)}`)),
    table(rows, shown, columns),
    exited.length ? exitedTable(exited) : null,
    state.unread && unread.length ? unreadTable(unread.filter(fits)) : null,
  ]);
  const body = main.querySelector('table.processes tbody');
  if (body) show(body, grouped(shown).map((one) => (one.of ? lazy(`group-${one.name}`, JSON.stringify(one), () => groupElement(one, columns)) : lazy(key(one.row), version(one.row, columns) + one.inside, () => rowElement(one.row, columns, one.inside)))));
  const search = document.getElementById('search');
  if (search && search.value !== state.query && document.activeElement !== search) search.value = state.query;
}

// Returns the line of an incident with the half-hour chart of its process.
function line(incident) {
  const row = incident.pid ? record.processes.find((one) => one.pid === incident.pid) : null;
  const opened = (id, isOpen) => {
    if (state.open.has(id) === isOpen) return;
    if (isOpen) state.open.add(id);
    else state.open.delete(id);
    writeUrl();
  };
  return incidentLine(incident, row && sparks.has(key(row)) ? spark(sparks.get(key(row))) : null, state.open.has(incident.id), opened);
}

function version(row, columns) {
  return JSON.stringify([row, sparks.get(key(row))?.version, columns.length]);
}

let sparkVersion = 0;

export function open() {
  readUrl();
  record = null;
  document.title = 'gcwatch';
  follow('view=overview', {
    overview: (next) => {
      record = next;
      showDashboards(next.grafana_url);
      if (next.processes.some((row) => row.spark)) {
        sparkVersion += 1;
        sparks = new Map(next.processes.filter((row) => row.spark).map((row) => [key(row), { ...row.spark, version: sparkVersion }]));
      }
      for (const row of next.processes) delete row.spark;
      const wrong = next.incidents.filter((incident) => incident.until === null && incident.severity !== 'info').length;
      document.title = wrong ? `(${wrong}) gcwatch` : 'gcwatch';
      render();
    },
  });
  return { render };
}

// Moves between rows (j and k).
export function move(step) {
  const links = [...document.querySelectorAll('table.processes tbody a.name')];
  if (!links.length) return;
  const place = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, place < 0 ? (step > 0 ? 0 : links.length - 1) : place + step))].focus();
}
