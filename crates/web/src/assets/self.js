// View of gcwatch: delivery of data, and costs.

import { h, show } from './dom.js';
import { DASH, ago, bytes, count, duration, percent, since } from './format.js';
import { follow } from './live.js';

let record = null;
let before = null;

function fact(label, value, note) {
  return h('div', { class: 'fact' }, h('span', { class: 'label' }, label), h('span', { class: 'value' }, value), note ? h('span', { class: 'sub' }, note) : null);
}

const counts = (map) => Object.entries(map).map(([name, number]) => `${name.replaceAll('_', ' ')} ${count(number)}`).join(', ');
const STATES = { ok: 'reachable', failing: 'failing', idle: 'nothing sent yet', off: 'not configured', unsupported: 'not supported' };

function cpu() {
  const total = (usage) => (usage.cpu_user_s === null || usage.cpu_system_s === null ? null : usage.cpu_user_s + usage.cpu_system_s);
  const [now, then] = [total(record.usage), before && total(before.usage)];
  if (now === null) return [DASH, 'unreadable'];
  const overall = record.started ? now / ((record.at_ms - Date.parse(record.started)) / 1000) : null;
  const lately = then !== null && before && record.at_ms > before.at_ms ? (now - then) / ((record.at_ms - before.at_ms) / 1000) : null;
  return [lately === null ? percent(overall) : percent(Math.max(0, lately)), `of one core; ${percent(overall)} since start`];
}

function render() {
  if (!record) return;
  const late = record.parts.filter((part) => part.late);
  const failing = record.receivers.filter((receiver) => receiver.state === 'failing' || receiver.state === 'unsupported');
  const [share, note] = cpu();
  const { streams } = record;
  show(document.getElementById('main'), [
    h('div', { class: 'headline', key: 'head' },
      h('h1', null, late.length ? `${late.map((part) => part.name).join(', ')} ${late.length === 1 ? 'is' : 'are'} late` : failing.length ? `${failing.length} ${failing.length === 1 ? 'receiver refuses' : 'receivers refuse'} data` : 'gcwatch is healthy'),
      h('p', { class: 'faint' }, `gcwatch ${record.version}, pid ${record.pid}`, record.started ? [', running for ', since(record.started)] : null)),
    h('div', { class: 'facts many', key: 'facts' },
      fact('CPU', share, note),
      fact('Memory', bytes(record.usage.resident), `${count(record.usage.threads)} threads, ${count(record.usage.descriptors)} open files`),
      fact('Streams', count(streams.attached), `${count(streams.events)} events, ${bytes(streams.bytes)} read`),
      fact('Collections', count(streams.collections), `${count(streams.spans)} spans created`),
      fact('Events lost', count(streams.lost_events), 'dropped by runtimes'),
      fact('Lag', duration(streams.lag_ns), 'slowest stream'),
      fact('Stalls', count(record.stalls), record.stalls ? `${duration(record.stalled_ns)} in total` : 'no stalls'),
      fact('Viewers', `${record.listener.viewers} of ${record.listener.most_viewers}`, 'open pages')),
    h('section', { class: 'panel', key: 'receivers' }, h('h2', null, 'Receivers'),
      h('div', { class: 'scroll' }, h('table', null,
        h('thead', null, h('tr', null, ['Signal', 'Receiver', 'State'].map((title) => h('th', { scope: 'col' }, title)), ['Sent', 'Waiting'].map((title) => h('th', { class: 'n', scope: 'col' }, title)), ['Dropped', 'Failed requests', 'Newest error'].map((title) => h('th', { scope: 'col' }, title)))),
        h('tbody', null, record.receivers.map((receiver) => h('tr', null,
          h('td', null, h('b', null, receiver.signal)), h('td', null, receiver.name),
          h('td', null, h('span', { class: `state ${receiver.state}` }, STATES[receiver.state] ?? receiver.state)),
          h('td', { class: 'n' }, count(receiver.sent)), h('td', { class: 'n' }, count(receiver.waiting)),
          h('td', null, counts(receiver.dropped) || DASH), h('td', null, counts(receiver.failures) || DASH),
          h('td', null, receiver.last_error ?? DASH, receiver.last_error_at ? h('span', { class: 'sub' }, ago(receiver.last_error_at)) : null))))))),
    h('div', { class: 'columns three', key: 'more' },
      h('section', { class: 'panel' }, h('h2', null, 'Components'), record.parts.length ? h('table', null, h('tbody', null, record.parts.map((part) => h('tr', null, h('th', { scope: 'row' }, part.name), h('td', null, part.late ? h('b', null, 'late') : 'alive'), h('td', { class: 'n' }, `${duration(part.age_ns)} ago`))))) : h('p', { class: 'faint' }, 'This command monitors no processes.')),
      h('section', { class: 'panel' }, h('h2', null, 'Not monitored'), Object.keys(record.not_read).length ? h('table', null, h('tbody', null, Object.entries(record.not_read).map(([name, number]) => h('tr', null, h('th', { scope: 'row' }, name), h('td', { class: 'n' }, count(number)))))) : h('p', { class: 'faint' }, 'All .NET processes are monitored.')),
      h('section', { class: 'panel' }, h('h2', null, 'Processes with their own runtime metrics'), record.exports_runtime.length ? h('table', null, h('tbody', null, record.exports_runtime.map((process) => h('tr', null, h('th', { scope: 'row' }, h('a', { href: `/processes/${process.pid}` }, process.process)), h('td', null, process.sign))))) : h('p', { class: 'faint' }, 'No such processes.')),
      h('section', { class: 'panel' }, h('h2', null, 'Reached limits'), Object.keys(record.limits).length ? h('table', null, h('tbody', null, Object.entries(record.limits).map(([name, number]) => h('tr', null, h('th', { scope: 'row' }, name), h('td', { class: 'n' }, count(number)))))) : h('p', { class: 'faint' }, 'No limits reached.'))),
    h('p', { class: 'faint', key: 'links' }, h('a', { href: '/metrics' }, 'metrics'), ' · ', h('a', { href: '/livez' }, 'livez'), ' · ', h('a', { href: '/api/v1/overview' }, 'show as JSON')),
  ]);
}

export function open() {
  record = null;
  before = null;
  document.title = 'gcwatch status';
  follow('view=self', { self: (next) => { before = record; record = next; render(); } });
  return { render };
}
