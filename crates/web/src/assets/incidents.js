// Incidents: cause, service, start, evidence and remedy. Lists have one line per incident, with details on demand.

import { command, h } from './dom.js';
import { absolute, ago, bytes, count, dashboardUrl, duration, isRecorded, percent, prose, severity, sinceWhen, span, timeOfDay } from './format.js';
import { accountBar } from './account.js';

const serviceOf = (incident) => incident.service ?? incident.process ?? 'a process';

function link(incident) {
  const name = serviceOf(incident);
  if (incident.symptom.startsWith('watcher.')) return h('a', { href: '/self' }, name);
  return incident.pid ? h('a', { href: `/processes/${incident.pid}` }, name) : h('b', null, name);
}

function where(incident) {
  const pod = incident.resource?.['k8s.pod.name'];
  const parts = [pod, incident.pid ? `pid\u00a0${incident.pid}` : null].filter(Boolean).join(' · ');
  return [link(incident), parts ? h('span', { class: 'faint' }, ` ${parts}`) : null];
}

const evidenceNames = { ledger: 'Memory', 'black-box': 'Recording', callers: 'Code that triggers collections', allocations: 'Code that allocates', stacks: 'Thread activity', census: 'Live objects' };

function evidenceLine(incident, evidence) {
  const isFile = evidence.where.startsWith('/api/v1/evidence/');
  const text = isFile ? [
    evidence.report ? h('a', { class: 'button', href: evidence.report, target: '_blank', rel: 'noopener' }, 'Open report') : null,
    ' ', h('a', { href: evidence.where, title: evidence.where.split('/').at(-1) }, 'download'),
    h('span', { class: 'faint' }, ' · up to 30 s before the incident and 10 s after'),
    evidence.stored ? h('span', { class: 'faint' }, ` · copy: ${evidence.stored}`) : null] : evidence.text;
  const isMissing = incident[evidence.name]?.none_because;
  return h('p', { class: isMissing ? 'evidence faint' : 'evidence' }, h('b', null, `${evidenceNames[evidence.name] ?? evidence.name}: `), text);
}

function amount(found) {
  return [h('td', { class: 'number' }, bytes(found.estimate)),
    h('td', { class: 'number wide1' }, found.low === null ? 'unknown' : `${bytes(found.low)} to ${bytes(found.high)}`),
    h('td', { class: 'number wide1' }, count(found.samples))];
}

// Returns a code name that can break after its dots.
const name = (text) => h('code', null, text.split(/(?<=\.)/).flatMap((part, place) => (place ? [h('wbr'), part] : [part])));

// Returns the site of a finding: the method of the program, the library method that it called, and the callers below.
function who({ site, called_by: program, frames }) {
  const ways = frames.filter((frame) => frame !== site && frame !== program && !/^(System|Microsoft)\./.test(frame) && !frame.includes('(dynamic method)')).slice(0, 2);
  return [program ? [name(program), ' → '] : null, name(site ?? 'no frame'),
    ways.length ? h('span', { class: 'sub' }, 'called by ', ways.map((frame, place) => [place ? ', ' : '', name(frame)])) : null];
}

function callersTable({ callers }) {
  if (!callers?.callers.length) return null;
  return h('table', { class: 'found' },
    h('thead', null, h('tr', null, ['method', 'call', 'collections', 'stopped'].map((name) => h('th', { class: name === 'collections' ? 'wide0' : null }, name)))),
    h('tbody', null, callers.callers.map((caller) => h('tr', { title: caller.frames.join('\n') },
      h('td', null, who(caller)),
      h('td', null, caller.api ?? caller.reason),
      h('td', { class: 'number wide0' }, count(caller.collections)),
      h('td', { class: 'number' }, caller.stopped_ns === null ? 'unknown' : duration(caller.stopped_ns))))));
}

function allocationsTable({ allocations }) {
  if (!allocations?.sites.length) return null;
  // NativeAOT provides no type names.
  const isNamed = allocations.types.some((one) => one.type !== null);
  const type = (name) => name ?? (allocations.method === 'tick' || !isNamed ? 'unknown' : 'several types');
  return h('table', { class: 'found' },
    h('thead', null, h('tr', null, ['method', 'type', 'bytes', '95 % interval', 'samples'].map((name, place) => h('th', { class: place > 2 ? 'wide1' : null }, name)))),
    h('tbody', null,
      allocations.sites.map((site) => h('tr', { title: site.frames.join('\n') },
        h('td', null, who(site)), h('td', null, h('code', null, type(site.type))), amount(site))),
      allocations.types.map((one) => h('tr', null,
        h('td', { class: 'faint' }, 'all methods'), h('td', null, h('code', null, one.type ?? 'unknown')), amount(one)))));
}

function stacksTable({ stacks }) {
  if (!stacks?.stacks.length) return null;
  return h('table', { class: 'found' },
    h('thead', null, h('tr', null, ['threads', 'method', 'managed code'].map((name) => h('th', null, name)))),
    h('tbody', null, stacks.stacks.map((stack) => h('tr', { title: stack.frames.join('\n') },
      h('td', null, stack.finalizer ? (stack.threads === 1 ? 'finalizer thread' : `finalizer thread and ${count(stack.threads - 1)} more`) : count(stack.threads)),
      h('td', null, name(stack.site ?? stack.frames[0] ?? 'no frame'), stack.frames.length && stack.frames[0] !== stack.site ? h('span', { class: 'sub' }, 'in ', name(stack.frames[0])) : null),
      h('td', { class: 'number' }, stack.all_samples ? percent(stack.managed_samples / stack.all_samples, 0) : 'unknown')))));
}

// Returns growth with its sign; a single dump has no growth.
const grown = (value, unit) => (value === null ? '' : `${value < 0 ? '\u2212' : '+'}${unit(Math.abs(value))}`);

function censusTable({ census }) {
  if (!census?.types.length && !census?.roots.length) return null;
  const isCompared = census.apart_s !== null;
  const heads = (first) => h('thead', null, h('tr', null, [first, 'objects', 'retained', isCompared ? 'growth' : null].filter(Boolean).map((name) => h('th', null, name))));
  const growth = (retained, own) => (isCompared ? h('td', { class: 'number' }, grown(retained === null || own === null ? retained ?? own : Math.max(retained, own), bytes)) : null);
  return [
    census.types.length ? h('table', { class: 'found' }, heads('type and root'),
      h('tbody', null, census.types.map((one) => h('tr', { title: one.root === null ? null : [one.root, ...one.path].join('\n') },
        h('td', null, name(one.type), one.root === null ? null : h('span', { class: 'sub' }, 'held by ', name(one.root))),
        h('td', { class: 'number' }, count(one.objects), one.grown_objects === null ? null : h('span', { class: 'sub' }, grown(one.grown_objects, count))),
        h('td', { class: 'number' }, bytes(one.retained ?? one.bytes)),
        growth(one.grown_retained, one.grown_bytes))))) : null,
    census.roots.length ? h('table', { class: 'found' }, heads('root'),
      h('tbody', null, census.roots.map((one) => h('tr', null,
        h('td', null, name(one.root)),
        h('td', { class: 'number' }, count(one.objects)),
        h('td', { class: 'number' }, bytes(one.retained)),
        growth(one.grown_retained, one.grown_reached))))) : null,
    census.kept_by.length ? treemap([...census.kept_by.map((one) => ({ title: one.root, value: one.retained })), { title: 'several roots', value: census.bytes - census.kept_by.reduce((sum, one) => sum + one.retained, 0) }]) : null,
  ];
}

// Draws bytes by their only root as areas: halves of similar weight, split across the longer side.
function treemap(parts) {
  const cells = [];
  const place = (list, box, wide) => {
    const total = list.reduce((sum, part) => sum + part.value, 0);
    if (list.length === 1) return void cells.push({ ...list[0], ...box });
    let [head, at] = [0, 0];
    while (at < list.length - 1 && (at === 0 || head + list[at].value / 2 < total / 2)) head += list[at++].value;
    const share = head / total;
    const across = box.width * wide >= box.height;
    place(list.slice(0, at), across ? { ...box, width: box.width * share } : { ...box, height: box.height * share }, wide);
    place(list.slice(at), across ? { ...box, left: box.left + box.width * share, width: box.width * (1 - share) } : { ...box, top: box.top + box.height * share, height: box.height * (1 - share) }, wide);
  };
  const known = parts.filter((part) => part.value > 0).sort((a, b) => b.value - a.value);
  if (!known.length) return null;
  place(known, { left: 0, top: 0, width: 100, height: 100 }, 3);
  const all = known.reduce((sum, part) => sum + part.value, 0);
  const text = cells.map((cell) => `${cell.title} ${percent(cell.value / all, 0)}`).join(', ');
  return h('div', { class: 'treemap', role: 'img', 'aria-label': `Memory kept alive by single roots: ${text}` }, cells.map((cell, place) => h('span', {
    class: `part-${Math.min(place, 4)}`, title: `${cell.title}: ${bytes(cell.value)}`,
    style: Object.fromEntries(['left', 'top', 'width', 'height'].map((side) => [side, `${cell[side].toFixed(2)}%`])),
  }, `${cell.title} ${bytes(cell.value)}`)));
}

// Evidence with a table needs no additional sentence.
const tables = { callers: callersTable, allocations: allocationsTable, stacks: stacksTable, census: censusTable };

// Flame graphs, like recordings, are served only to users with access to evidence: other users see the alternative
// text.
function flame({ flame: url }) {
  return url ? h('details', null, h('summary', null, 'Flame graph'),
    h('a', { href: url, title: 'Open in new tab', target: '_blank', rel: 'noopener' }, h('img', { class: 'flame', src: url, loading: 'lazy', alt: 'flame graph of all stacks' }))) : null;
}

function evidenceOf(incident, evidence, whole) {
  const table = whole ? tables[evidence.name]?.(incident) : null;
  if (!table) return evidenceLine(incident, evidence);
  const found = incident[evidence.name];
  const length = found.apart_s ? `, growth in ${span(found.apart_s)}` : found.start_ns === undefined || found.start_ns === null || found.end_ns === null ? '' : `, in ${found.end_ns - found.start_ns < 1e9 ? duration(found.end_ns - found.start_ns) : span((found.end_ns - found.start_ns) / 1e9)}`;
  const at = found.at ? [' ', h('span', { class: 'faint' }, ago(found.at))] : '';
  return h('div', { class: 'evidence' }, h('b', null, `${evidenceNames[evidence.name]}${length}${found.method === 'tick' ? ', biased' : ''}`), at, h('div', { class: 'scroll' }, table),
    found.alone_because ? h('p', { class: 'faint' }, `Not compared: ${found.alone_because}`) : null, flame(found));
}

// Returns the line of a cause.
function causeLine(cause, pid) {
  const share = partly(cause);
  return h('p', { class: 'cause' }, h('b', null, `Cause: ${cause.title}${share}. `), prose(cause.summary, pid));
}

function accountOf({ account }) {
  if (!account?.parts.length) return null;
  return h('div', { class: 'evidence' }, h('b', null, `Stopped for ${duration(account.total)}${account.over_ns ? ` of the last ${span(account.over_ns / 1e9)}` : ''}`), accountBar(account));
}

// Pattern of `web.grafana_url` for dashboards of services; null if not set.
let dashboards = null;
export function showDashboards(pattern) {
  dashboards = pattern ?? null;
}

const AROUND_MS = 15 * 60000;

function dashboard(incident) {
  const service = incident.service ?? incident.process;
  if (!dashboards || !service) return null;
  const from = Date.parse(incident.since) - AROUND_MS;
  const to = incident.until === null ? 'now' : Date.parse(incident.until) + AROUND_MS;
  const url = dashboardUrl(dashboards, { service, namespace: incident.resource?.['k8s.namespace.name'], pod: incident.resource?.['k8s.pod.name'], from, to });
  return h('p', null, h('a', { href: url, target: '_blank', rel: 'noopener' }, 'Open the service dashboard'), h('span', { class: 'faint' }, ' from 15 min before the incident'));
}

// Returns the content of an incident. `whole` adds the tables of its evidence, as on the page of its process.
function body(incident, { named, whole }) {
  const named_by = incident.callers?.callers.length || incident.allocations?.sites.length;
  // An exited process does not respond, and a recorded process can belong to another machine.
  const pid = incident.process_ended || isRecorded() ? null : incident.pid;
  return [
    named ? h('p', { class: 'where' }, where(incident), incident.process_ended ? h('span', { class: 'tag' }, 'process exited') : null) : null,
    h('p', { class: 'summary' }, prose(incident.summary, pid)),
    incident.causes.map((cause) => causeLine(cause, pid)),
    // The page of the process already shows the account.
    whole ? null : accountOf(incident),
    incident.remedy ? h('p', { class: 'remedy' }, h('b', null, 'What to do: '), prose(incident.remedy, pid)) : null,
    incident.evidence.map((evidence) => evidenceOf(incident, evidence, whole)),
    dashboard(incident),
    incident.command ? command(incident.command, 'Record and analyze one minute: ') : null,
    !whole && incident.pid && named_by ? h('p', null, h('a', { href: `/processes/${incident.pid}` }, 'Show code and charts'), ' on the process page') : null,
    h('details', null,
      h('summary', null, `Details (${incident.members.length === 1 ? '1 rule' : `${incident.members.length} rules`})`),
      incident.description ? h('p', null, prose(incident.description)) : null,
      h('ul', { class: 'members' }, incident.members.map((member) => h('li', null,
        severity(member.severity, false), ' ', h('b', null, member.title), ' ', h('code', null, member.rule), ' ',
        h('span', { class: 'faint' }, `${member.count === 1 ? 'once' : `${count(member.count)} times`}${member.until ? ', ended' : ''}`)))),
      incident.gc_number !== null && incident.pid ? h('p', null, 'First occurrence: ', h('a', { href: `/processes/${incident.pid}/collections/${incident.gc_number}` }, `collection ${incident.gc_number}`)) : null),
  ];
}

function when(incident) {
  if (incident.until === null) return ['since ', sinceWhen(incident.since)];
  if (incident.process_ended) return h('span', { title: absolute(Date.parse(incident.since)) }, `from ${timeOfDay(Date.parse(incident.since))} until the process exited at ${timeOfDay(Date.parse(incident.process_ended))}`);
  const lasted = (Date.parse(incident.until) - Date.parse(incident.since)) / 1000;
  return h('span', { title: `${absolute(Date.parse(incident.since))} to ${absolute(Date.parse(incident.until))}` }, `resolved, lasted ${span(lasted)}`);
}

const classOf = (incident) => `incident ${incident.severity}${incident.until === null ? '' : ' ended'}`;

// Returns an incident as a card, for the page of a process.
export function incidentCard(incident, { named = true } = {}) {
  return h('article', { class: classOf(incident), key: incident.id, id: `incident-${incident.id}` },
    h('header', null, severity(incident.severity), h('h3', null, incident.title), h('span', { class: 'when' }, when(incident))),
    body(incident, { named, whole: true }));
}

// Returns the share of the harm that a cause explains, unless it explains all harm.
const partly = ({ share }) => (share === null || share >= 0.995 ? '' : ` (explains ${Math.round(share * 100)} %)`);

// Returns the main cause in a few words, or the position of a stuck finalizer thread.
function because({ causes, stacks }) {
  const stuck = stacks?.stacks.find((stack) => stack.finalizer && stack.threads === 1)?.site;
  const text = causes.length ? `${causes[0].title}${partly(causes[0])}` : stuck ? `finalizer thread in ${stuck}` : null;
  return text ? h('span', { class: 'because' }, `: ${text}`) : null;
}

// Returns an incident as a line: severity, title, service, start and `beside`; the details open below.
export function incidentLine(incident, beside = null, open = false, opened = null) {
  return h('details', { class: `${classOf(incident)} line`, key: incident.id, id: `incident-${incident.id}`, open, ontoggle: opened ? (event) => opened(incident.id, event.currentTarget.open) : null },
    h('summary', null,
      severity(incident.severity, false),
      h('h3', null, incident.title, because(incident)),
      h('span', { class: 'service' }, link(incident), incident.process_ended ? h('span', { class: 'tag' }, 'exited') : null),
      h('span', { class: 'when' }, when(incident)),
      h('span', { class: 'beside-line' }, beside)),
    h('div', { class: 'inside' }, body(incident, { named: true, whole: false })));
}
