// Incidents as a person needs them: what, where, since when, what to do.

import { h } from './dom.js';
import { absolute, bytes, count, prose, severity, since, span } from './format.js';

function where(incident) {
  const name = incident.service ?? incident.process ?? 'a process';
  const pod = incident.resource?.['k8s.pod.name'];
  const isOwn = incident.symptom.startsWith('watcher.');
  const link = isOwn ? h('a', { href: '/self' }, name) : incident.pid ? h('a', { href: `/processes/${incident.pid}` }, name) : h('b', null, name);
  return [link, pod ? h('span', { class: 'faint' }, ` ${pod}`) : null, incident.pid ? h('span', { class: 'faint' }, ` pid ${incident.pid}`) : null];
}

const evidenceNames = { ledger: 'Memory', 'black-box': 'Black box', callers: 'Who makes it collect', allocations: 'Who allocates' };

function evidenceLine(evidence) {
  const text = evidence.where.startsWith('/api/v1/evidence/') ? h('a', { href: evidence.where }, evidence.text) : evidence.text;
  return h('p', { class: 'evidence' }, h('b', null, `${evidenceNames[evidence.name] ?? evidence.name}: `), text);
}

function amount(found) {
  return [h('td', { class: 'number' }, bytes(found.estimate)),
    h('td', { class: 'number' }, found.low === null ? 'unknown' : `${bytes(found.low)} to ${bytes(found.high)}`),
    h('td', { class: 'number' }, count(found.samples))];
}

// The program's own method before the library's that it called.
function who({ site, called_by: program }) {
  return [program ? [h('code', null, program), ' → '] : null, h('code', null, site ?? 'no frame')];
}

function callersTable({ callers }) {
  if (!callers?.callers.length) return null;
  return h('table', { class: 'found' },
    h('thead', null, h('tr', null, ['who', 'call', 'collections', 'stopped'].map((name) => h('th', null, name)))),
    h('tbody', null, callers.callers.map((caller) => h('tr', { title: caller.frames.join('\n') },
      h('td', null, who(caller)),
      h('td', null, caller.api ?? caller.reason),
      h('td', { class: 'number' }, count(caller.collections)),
      h('td', { class: 'number' }, caller.stopped_ns === null ? 'unknown' : span(caller.stopped_ns / 1e9))))));
}

function allocationsTable({ allocations }) {
  if (!allocations?.sites.length) return null;
  // NativeAOT names no type at all.
  const isNamed = allocations.types.some((one) => one.type !== null);
  const type = (name) => name ?? (allocations.method === 'tick' || !isNamed ? 'unknown' : 'several types');
  return h('table', { class: 'found' },
    h('thead', null, h('tr', null, ['who', 'type', 'bytes', '95 % interval', 'samples'].map((name) => h('th', null, name)))),
    h('tbody', null,
      allocations.sites.map((site) => h('tr', { title: site.frames.join('\n') },
        h('td', null, who(site)), h('td', null, h('code', null, type(site.type))), amount(site))),
      allocations.types.map((one) => h('tr', null,
        h('td', { class: 'faint' }, 'all sites'), h('td', null, h('code', null, one.type ?? 'unknown')), amount(one)))));
}

// What has a table needs no sentence as well.
const tables = { callers: callersTable, allocations: allocationsTable };

// Served to who may see evidence, like recordings: for others the picture has its text only.
function flame({ flame: url }) {
  return url ? h('details', null, h('summary', null, 'Flame graph'),
    h('a', { href: url, title: 'by itself, to hover over' }, h('img', { class: 'flame', src: url, loading: 'lazy', alt: 'flame graph of all stacks' }))) : null;
}

function evidenceOf(incident, evidence) {
  const table = tables[evidence.name]?.(incident);
  if (!table) return evidenceLine(evidence);
  const found = incident[evidence.name];
  const time = found.start_ns === null || found.end_ns === null ? '' : `, in ${span((found.end_ns - found.start_ns) / 1e9)}`;
  return h('div', { class: 'evidence' }, h('b', null, `${evidenceNames[evidence.name]}${time}${found.method === 'tick' ? ', biased' : ''}`), table, flame(found));
}

// What explains it, the largest share first.
function causeLine(cause, incident) {
  const share = cause.share === null ? '' : ` (${Math.round(cause.share * 100)} %)`;
  return h('p', { class: 'cause' }, h('b', null, `Cause: ${cause.title}${share}. `), prose(cause.summary, incident.pid));
}

const command = (incident) => h('p', null, h('code', null, incident.command));

export function incidentCard(incident, { named = true, open = false } = {}) {
  const ended = incident.until !== null;
  const lasted = ended ? (Date.parse(incident.until) - Date.parse(incident.since)) / 1000 : null;
  return h('article', { class: `incident ${incident.severity}${ended ? ' ended' : ''}`, key: incident.id, id: `incident-${incident.id}` },
    h('header', null,
      severity(incident.severity),
      h('h3', null, incident.title),
      h('span', { class: 'when' }, ended
        ? h('span', { title: `${absolute(Date.parse(incident.since))} to ${absolute(Date.parse(incident.until))}` }, `ended, lasted ${span(lasted)}`)
        : ['for ', since(incident.since)])),
    named ? h('p', { class: 'where' }, where(incident), incident.process_ended ? h('span', { class: 'tag' }, 'process exited') : null) : null,
    h('p', { class: 'summary' }, prose(incident.summary, incident.pid)),
    incident.causes.map((cause) => causeLine(cause, incident)),
    incident.evidence.map((evidence) => evidenceOf(incident, evidence)),
    incident.remedy ? h('p', { class: 'remedy' }, h('b', null, 'What to do: '), prose(incident.remedy, incident.pid)) : null,
    // Where there are many, what to type is one click away.
    incident.command && !named ? command(incident) : null,
    h('details', { open },
      h('summary', null, incident.members.length === 1 ? 'its rule, and what it means' : `${incident.members.length} rules, and what it means`),
      incident.description ? h('p', null, prose(incident.description)) : null,
      incident.command && named ? command(incident) : null,
      h('ul', { class: 'members' }, incident.members.map((member) => h('li', null,
        severity(member.severity, false), ' ', h('b', null, member.title), ' ', h('code', null, member.rule), ' ',
        h('span', { class: 'faint' }, `${member.count === 1 ? 'once' : `${count(member.count)} times`}${member.until ? ', over' : ''}`)))),
      incident.gc_number !== null && incident.pid ? h('p', null, h('a', { href: `/processes/${incident.pid}/collections/${incident.gc_number}` }, `collection ${incident.gc_number}`), ' was the first') : null));
}
