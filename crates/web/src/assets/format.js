// Formats of numbers and times. Unknown values are a dash.

import { copied, h } from './dom.js';

export const DASH = '–';
const known = (value) => value !== null && value !== undefined;
const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function count(value) {
  return known(value) ? grouped.format(value) : DASH;
}

function digits(value) {
  if (value >= 100) return grouped.format(value);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

// Formats bytes as MiB, or as B, KiB or GiB if necessary, with three digits.
export function bytes(value) {
  if (!known(value)) return DASH;
  if (value === 0) return '0 MiB';
  const mib = value / 1048576;
  if (mib < 0.1) return value < 1024 ? `${Math.round(value)} B` : `${(value / 1024).toFixed(1)} KiB`;
  if (mib >= 1024) return `${digits(mib / 1024)} GiB`;
  return `${digits(mib)} MiB`;
}

export function exact(value) {
  return known(value) ? `${grouped.format(value)} bytes` : 'unknown';
}

export function duration(ns) {
  if (!known(ns)) return DASH;
  if (ns === 0) return '0 ms';
  if (ns < 1e5) return `${(ns / 1e3).toFixed(ns < 1e4 ? 1 : 0)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 2 : ns < 1e8 ? 1 : 0)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(ns < 1e10 ? 2 : 1)} s`;
  return span(ns / 1e9);
}

// Formats a duration in seconds: `4 min`.
export function span(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

export function percent(share, places) {
  if (!known(share)) return DASH;
  const value = share * 100;
  if (value === 0) return '0 %';
  return `${value.toFixed(places ?? (value < 0.995 ? 2 : value < 9.95 ? 1 : 0))} %`;
}

export function rate(events, window) {
  if (!known(events) || !window) return DASH;
  const value = events / (window / 1e9);
  if (value === 0) return '0';
  return value >= 10 ? value.toFixed(0) : value >= 0.095 ? value.toFixed(1) : value.toFixed(2);
}

// Clock of the monitored host: a wrong clock of the browser has no effect.
let offset = 0;
export function clock(atMs) {
  offset = atMs - Date.now();
}
export function now() {
  return Date.now() + offset;
}

function pad(number) {
  return String(number).padStart(2, '0');
}

export function absolute(ms) {
  const date = new Date(ms);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${timeOfDay(ms)}`;
}

export function timeOfDay(ms) {
  const date = new Date(ms);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

// Whether the page shows ended data (a recording), without relative times.
let over = false;
export function recorded() {
  over = true;
}
export const isRecorded = () => over;

// Returns a relative time such as `4 min ago`, with the absolute time as tooltip.
export function ago(time) {
  const ms = typeof time === 'string' ? Date.parse(time) : time;
  if (!known(ms) || Number.isNaN(ms)) return h('span', null, DASH);
  if (over) return h('time', { datetime: new Date(ms).toISOString(), title: absolute(ms) }, timeOfDay(ms));
  return h('time', { datetime: new Date(ms).toISOString(), title: absolute(ms) }, `${span((now() - ms) / 1000)} ago`);
}

export function since(time) {
  const ms = Date.parse(time);
  if (Number.isNaN(ms)) return h('span', null, DASH);
  if (over) return h('time', { datetime: time, title: absolute(ms) }, `from ${timeOfDay(ms)} to the end`);
  return h('time', { datetime: time, title: absolute(ms) }, span((now() - ms) / 1000));
}

// Returns a start time with the elapsed time: `02:15:58 (22 min)`; with the date if it was another day.
export function sinceWhen(time) {
  const ms = Date.parse(time);
  if (Number.isNaN(ms)) return h('span', null, DASH);
  const day = absolute(ms).slice(0, 10) === absolute(now()).slice(0, 10);
  const at = day || over ? timeOfDay(ms) : absolute(ms).slice(5);
  return h('time', { datetime: time, title: `${absolute(ms)} ${zone()}` }, over ? at : `${at} (${span((now() - ms) / 1000)})`);
}

// Returns the time zone of all times on the page: the zone of the browser.
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const of = Math.abs(minutes);
  return minutes ? `UTC${minutes < 0 ? '-' : '+'}${pad(Math.floor(of / 60))}:${pad(of % 60)}` : 'UTC';
}

const SHAPES = {
  critical: 'M5 1h6l4 4v6l-4 4H5l-4-4V5z',
  error: 'M8 1l7 7-7 7-7-7z',
  warning: 'M8 1.5l7 13H1z',
  info: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z',
};

// Returns a severity as shape, word and colour.
export function severity(name, word = true) {
  if (!name) return null;
  return h('span', { class: `severity ${name}` },
    h('svg', { viewBox: '0 0 16 16', width: 14, height: 14, role: 'img', 'aria-label': name }, h('path', { d: SHAPES[name] ?? SHAPES.info })),
    word ? name : null);
}

export const SEVERITIES = ['info', 'warning', 'error', 'critical'];

// Returns a text of a rule: text in backticks is code. In a command, PID is replaced by the pid of the process, if
// known. A complete command has a copy button.
export function prose(text, pid = null) {
  return text.split('`').map((part, place) => {
    if (place % 2 === 0) return part;
    const code = pid ? part.replace(/\bPID\b/, pid) : part;
    return /^gcwatch (?!.*\b(PID|FILE)\b).*\d/.test(code) ? copied(code) : h('code', null, code);
  });
}

// Returns the URL of a service's dashboard: the pattern of `web.grafana_url`, filled with the values of the service.
export function dashboardUrl(pattern, { service, namespace, pod, from, to }) {
  const values = { service, namespace, pod, from, to };
  return pattern.replace(/\{(service|namespace|pod|from|to)\}/g, (_, name) => encodeURIComponent(values[name] ?? ''));
}

// Returns the kind of a collection.
export function kind(generation, type) {
  const number = known(generation) ? `gen ${generation}` : 'generation unknown';
  return type && type !== 'blocking' ? `${number} ${type}` : number;
}

export function kindClass(generation, type) {
  if (type === 'background') return 'bg';
  return generation === 0 ? 'g0' : generation === 1 ? 'g1' : generation === 2 ? 'g2' : 'gx';
}

const REASONS = {
  AllocSmall: 'allocation of small objects',
  AllocLarge: 'allocation of large objects',
  Induced: 'call of GC.Collect',
  InducedNotForced: 'non-forced request by GC.Collect or memory pressure',
  InducedCompacting: 'GC.Collect with compaction',
  InducedAggressive: 'aggressive GC.Collect',
  LowMemory: 'low memory',
  LowMemoryBlocking: 'low memory',
  LowMemoryHost: 'low memory',
  LowMemoryHostBlocking: 'low memory',
  OutOfSpaceSOH: 'no space for small objects',
  OutOfSpaceLOH: 'no space for large objects',
};

export function reason(name, byTool = false) {
  if (byTool) return 'heap dump by a tool';
  return name ? (REASONS[name] ?? name) : 'unknown';
}
