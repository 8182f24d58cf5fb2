// View of all rules: firing processes, thresholds and sources.

import { h, lazy, show } from './dom.js';
import { count, prose, severity, since } from './format.js';
import { follow } from './live.js';

let record = null;
let query = '';
let firingOnly = false;

function writeUrl() {
  const all = new URLSearchParams();
  if (query) all.set('q', query);
  if (firingOnly) all.set('only', 'firing');
  const text = all.toString();
  history.replaceState(history.state, '', text ? `/rules?${text}` : '/rules');
}

// Returns a threshold in readable form: whole mebibytes as MiB, without empty decimals.
function figure(text) {
  const value = Number(text);
  if (text === '' || Number.isNaN(value)) return text;
  return value >= 1048576 && value % 1048576 === 0 ? `${value / 1048576} MiB` : String(value);
}

const process = (at) => h('li', null, at.pid ? [h('a', { href: `/processes/${at.pid}` }, at.name), h('span', { class: 'faint' }, ` pid ${at.pid}, `)] : [h('b', null, at.name), h('span', { class: 'faint' }, ' on this host, ')], at.state ? `${at.state} ` : '', 'for ', since(at.since));

function ruleElement(rule) {
  const states = Object.entries(rule.states).filter(([, number]) => number);
  const firing = rule.states.firing ?? 0;
  return h('article', { class: `rule${firing ? ` firing ${rule.severity}` : ''}${rule.enabled ? '' : ' off'}` },
    h('details', null, h('summary', null, severity(rule.severity, false), h('h3', null, rule.title), h('code', null, rule.id),
      firing ? h('span', { class: 'tag strong' }, `firing on ${count(firing)}`) : null,
      rule.enabled ? null : h('span', { class: 'tag' }, 'disabled'),
      rule.health === 'ok' ? null : h('span', { class: 'tag' }, `${count(rule.failures)} evaluations failed`),
      h('span', { class: 'states' }, states.length ? states.map(([name, number]) => `${name.replace('_', ' ')} ${count(number)}`).join(', ') : 'not evaluated yet', rule.params.length ? ' · ' : '', rule.params.map(({ name, value }) => `${name} ${figure(value)}`).join(', '))),
      h('p', null, prose(rule.description)),
      h('p', null, h('b', null, 'What to do: '), prose(rule.remedy)),
      h('p', null, h('b', null, 'Fires when '), h('code', null, rule.when), rule.select ? [', for processes with ', h('code', null, rule.select)] : null),
      rule.params.length ? h('table', null, h('tbody', null, rule.params.map(({ name, value, others }) => h('tr', null, h('th', { scope: 'row' }, name), h('td', null, h('code', null, figure(value)), others.map(([of, other]) => h('span', { class: 'block' }, h('code', null, figure(other)), ' if ', h('code', null, of)))))))) : null,
      h('p', { class: 'faint' }, `${rule.severity}, ${rule.status}, on ${rule.on}${rule.group ? `, group ${rule.group}` : ''} · source of the threshold: ${rule.source} · ${rule.location} · evaluated ${count(rule.evaluations)} times`),
      rule.last_failure ? h('p', { class: 'note' }, rule.last_failure) : null),
    rule.firing.length || rule.near.length ? h('ul', null, rule.firing.map(process), rule.near.map(process)) : null);
}

function render() {
  if (!record) return;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (rule) => (!firingOnly || rule.states.firing) && words.every((word) => `${rule.id} ${rule.title} ${rule.group} ${rule.severity} ${rule.location} ${rule.firing.map((at) => at.name).join(' ')}`.toLowerCase().includes(word));
  const rank = (rule) => [rule.states.firing ? 0 : rule.states.pending ? 1 : rule.enabled ? 2 : 3];
  const rules = record.rules.filter(fits).map((rule, place) => [rank(rule), place, rule]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , rule]) => rule);
  const firing = record.rules.filter((rule) => rule.states.firing).length;
  show(document.getElementById('main'), [
    h('div', { class: 'headline', key: 'head' }, h('h1', null, firing ? `${firing} of ${record.rules.length} rules are firing` : `No rule is firing; ${record.rules.length} active`),
      h('p', { class: 'faint' }, `Read from ${record.files.length} files`, record.loaded ? [', ', since(record.loaded), ' ago'] : null, '. Click a rule to show its condition, source and remedy.')),
    record.errors.length ? h('div', { class: 'note bad', key: 'errors' }, h('b', null, 'The rule files are invalid; the previous rules stay active:'), h('ul', null, record.errors.map((text) => h('li', null, text)))) : null,
    record.left_out.length ? h('div', { class: 'note bad', key: 'left_out' }, h('b', null, 'Rules and overrides that use removed words are left out; all other rules are active:'), h('ul', null, record.left_out.map((text) => h('li', null, text)))) : null,
    record.warnings.length ? h('details', { class: 'note', key: 'warnings' }, h('summary', null, `${record.warnings.length} warnings`), h('ul', null, record.warnings.map((text) => h('li', null, text)))) : null,
    h('div', { class: 'tools', key: 'tools' },
      h('input', { id: 'search', type: 'search', placeholder: 'Search rule, group, process …', 'aria-label': 'Search', value: query, oninput: (event) => { query = event.currentTarget.value; writeUrl(); render(); } }),
      h('label', { class: 'switch' }, h('input', { type: 'checkbox', checked: firingOnly, onchange: (event) => { firingOnly = event.currentTarget.checked; writeUrl(); render(); } }), 'firing only')),
    h('div', { class: 'rules', key: 'rules', keep: true, id: 'rules' }),
  ]);
  show(document.getElementById('rules'), rules.map((rule) => lazy(rule.id, JSON.stringify(rule), () => ruleElement(rule))));
}

export function open() {
  record = null;
  const asked = new URLSearchParams(location.search);
  query = asked.get('q') ?? '';
  firingOnly = asked.get('only') === 'firing';
  document.title = 'Rules · gcwatch';
  follow('view=rules', { rules: (next) => { record = next; render(); } });
  return { render };
}
