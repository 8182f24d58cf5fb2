// Charts as SVG in the pixel width of their elements, on one time axis.

import { h } from './dom.js';
import { bytes, duration, kind, kindClass, percent, timeOfDay } from './format.js';

const LEFT = 62;
const RIGHT = 14;
const BOTTOM = 20;
const TOP = 8;

// Minutes between labels of the time axis.
const STEPS = [1 / 60, 2 / 60, 5 / 60, 10 / 60, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 240, 480, 1440, 10080];

const tip = () => document.getElementById('tip');

function showTip(event, lines) {
  const box = tip();
  box.replaceChildren(...lines.map((line) => h('div', null, line)));
  box.hidden = false;
  const width = box.offsetWidth;
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8)}px`;
}

export function hideTip() {
  tip().hidden = true;
}

function nice(max) {
  if (!(max > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  for (const step of [1, 2, 2.5, 5, 10]) if (step * power >= max) return step * power;
  return max;
}

// Variant of `nice` for bytes, in powers of two.
function niceBytes(max) {
  let step = 1048576;
  while (step * 4 < max) step *= 2;
  return Math.max(step, Math.ceil(max / step) * step);
}

class Frame {
  constructor(width, height, from, to) {
    Object.assign(this, { width, height, from, to, marks: [] });
    this.right = width - RIGHT;
    this.bottom = height - BOTTOM;
  }

  x(ms) {
    return LEFT + ((ms - this.from) / (this.to - this.from)) * (this.right - LEFT);
  }

  at(x) {
    return this.from + ((x - LEFT) / (this.right - LEFT)) * (this.to - this.from);
  }

  y(share) {
    return this.bottom - share * (this.bottom - TOP);
  }

  grid(ticks) {
    const lines = ticks.map(([share, label]) => [
      h('line', { class: 'grid', x1: LEFT, x2: this.right, y1: this.y(share), y2: this.y(share) }),
      h('text', { class: 'axis', x: LEFT - 8, y: this.y(share) + 4, 'text-anchor': 'end' }, label),
    ]);
    const minute = 60000;
    const wanted = (this.to - this.from) / minute / (this.width < 500 ? 4 : 8);
    const step = STEPS.find((step) => step >= wanted) ?? STEPS.at(-1);
    for (let ms = Math.ceil(this.from / (step * minute)) * step * minute; ms <= this.to; ms += step * minute) {
      const label = timeOfDay(ms).slice(0, step < 1 ? 8 : 5);
      lines.push(h('text', { class: 'axis', x: Math.min(this.x(ms), this.width - 3.1 * label.length), y: this.height - 5, 'text-anchor': 'middle' }, label));
      lines.push(h('line', { class: 'grid up', x1: this.x(ms), x2: this.x(ms), y1: TOP, y2: this.bottom }));
    }
    return lines;
  }

  // Marks the time before gcwatch attached: no data is available.
  unknown(attached) {
    if (!attached || attached <= this.from) return null;
    const end = Math.min(this.x(attached), this.right);
    const wide = end - LEFT > 130;
    return [
      h('rect', { class: 'unknown', x: LEFT, y: TOP, width: Math.max(0, end - LEFT), height: this.bottom - TOP }),
      wide ? h('text', { class: 'axis', x: (LEFT + end) / 2, y: this.bottom - 8, 'text-anchor': 'middle' }, 'not monitored yet') : null,
    ];
  }

  // Draws the marks of process starts and incidents.
  events() {
    return (this.marks ?? []).filter(({ ms }) => ms >= this.from && ms <= this.to).map(({ ms, name, title }) => h('g', { class: `event ${name}` },
      h('line', { x1: this.x(ms), x2: this.x(ms), y1: TOP, y2: this.bottom }),
      h('path', { d: `M${this.x(ms) - 4} ${TOP - 6}h8l-4 6z` }),
      h('title', {}, `${timeOfDay(ms)}: ${title}`)));
  }

  svg(label, children, { class: name = 'chart', ...more } = {}) {
    return h('svg', { class: `${name} timed`, 'data-from': this.from, 'data-to': this.to, width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}`, role: 'img', 'aria-label': label, ...more }, children, this.events(), h('line', { class: 'cross', x1: -9, x2: -9, y1: TOP, y2: this.bottom }));
  }
}

function nearestBucket(frame, history, event) {
  const box = event.currentTarget.getBoundingClientRect();
  const ms = frame.at(event.clientX - box.left);
  const place = history.start_ms.findIndex((start) => ms >= start && ms < start + history.bucket_ms);
  return { place, ms };
}

function hover(frame, history, lines) {
  return {
    onpointermove: (event) => {
      const { place, ms } = nearestBucket(frame, history, event);
      if (ms < frame.from || ms > frame.to) return hideTip();
      if (place < 0) return showTip(event, [timeOfDay(ms), ms < (history.attached_ms ?? 0) ? 'not monitored yet' : 'no collections']);
      showTip(event, [`${timeOfDay(history.start_ms[place])}, ${duration(history.bucket_ms * 1e6)}`, ...lines(place)]);
    },
    onpointerleave: hideTip,
  };
}

// Returns the time under a pointer in a chart.
export function timeAt(svg, clientX) {
  const [from, to] = [Number(svg.dataset.from), Number(svg.dataset.to)];
  const width = svg.clientWidth || Number(svg.getAttribute('width'));
  const share = (clientX - svg.getBoundingClientRect().left - LEFT) / (width - RIGHT - LEFT);
  return from + Math.min(1, Math.max(0, share)) * (to - from);
}

// Draws one cross-hair through all charts at the time under the pointer.
export function cross(root, ms) {
  for (const svg of root.querySelectorAll('svg.timed')) {
    const [from, to] = [Number(svg.dataset.from), Number(svg.dataset.to)];
    const width = Number(svg.getAttribute('width'));
    const x = ms === null || ms < from || ms > to ? -9 : LEFT + ((ms - from) / (to - from)) * (width - RIGHT - LEFT);
    const line = svg.querySelector('.cross');
    line?.setAttribute('x1', x);
    line?.setAttribute('x2', x);
  }
}

// Whether the pointer selected a time range. Such a gesture is not a click.
export const drag = { moved: false };

// Returns the selected range. Without a selection, returns the time of the history or, if shorter, slightly more than
// the time since the attach (at least 2 minutes).
function range({ history, at_ms: at, chosen }) {
  if (chosen) return chosen;
  const watched = history.attached_ms === null ? history.span_ms : at - history.attached_ms;
  return [at - Math.min(history.span_ms, Math.max(120000, watched * 1.04 + 5000)), at];
}

// Returns whether all marks are in the last quarter of the range, as for a process with frequent collections.
export function isCrowded(record) {
  const [from, to] = range(record);
  const first = record.pauses.start_ms.reduce((least, start) => Math.min(least, start), Infinity);
  return first > from + (to - from) * 0.75;
}

const frameOf = (record, width, height) => Object.assign(new Frame(width, height, ...range(record)), { marks: record.marks });

function bars(frame, history, value, max, name) {
  const parts = [];
  history.start_ms.forEach((start, place) => {
    const amount = value(place);
    if (!amount) return;
    const x = Math.max(LEFT, frame.x(start));
    const width = Math.max(1, Math.min(frame.right, frame.x(start + history.bucket_ms)) - x - 0.6);
    const y = frame.y(Math.min(1, amount / max));
    if (x < frame.right) parts.push(`M${x.toFixed(1)} ${frame.bottom}V${Math.min(y, frame.bottom - 1).toFixed(1)}h${width.toFixed(1)}V${frame.bottom}z`);
  });
  return h('path', { class: name, d: parts.join('') || 'M0 0' });
}

// Draws the share of time during which the process was suspended.
export function stoppedChart(record, width) {
  const { history } = record;
  const frame = frameOf(record, width, 130);
  const share = (place) => history.stopped_ns[place] / (history.bucket_ms * 1e6);
  const max = Math.min(1, nice(Math.max(0.01, ...history.start_ms.map((_, place) => share(place)))));
  return frame.svg('Share of time during which the process was suspended', [
    frame.grid([[0, '0 %'], [0.5, percent(max / 2)], [1, percent(max)]]),
    frame.unknown(history.attached_ms),
    bars(frame, history, share, max, 'bar stopped'),
  ], hover(frame, history, (place) => [
    `${percent(share(place))} stopped (${duration(history.stopped_ns[place])})`,
    `longest ${duration(history.longest_ns[place])}, p99 ${duration(history.p99_ns[place])}`,
    collectionsOf(history, place),
  ]));
}

function collectionsOf(history, place) {
  const { gen0, gen1, gen2, background } = history.collections;
  return `collections: gen 0 ${gen0[place]}, gen 1 ${gen1[place]}, gen 2 ${gen2[place]}, background ${background[place]}`;
}

export function allocationChart(record, width) {
  const { history } = record;
  const frame = frameOf(record, width, 130);
  const perSecond = (place) => (history.allocated[place] ?? 0) / (history.bucket_ms / 1000);
  const max = niceBytes(Math.max(1048576, ...history.start_ms.map((_, place) => perSecond(place))));
  return frame.svg('Bytes allocated per second', [
    frame.grid([[0, '0'], [0.5, bytes(max / 2)], [1, bytes(max)]]),
    frame.unknown(history.attached_ms),
    bars(frame, history, perSecond, max, 'bar allocated'),
  ], hover(frame, history, (place) => [history.allocated[place] === null ? 'unknown' : `${history.allocated_lower_bound[place] ? 'at least ' : ''}${bytes(perSecond(place))} per second`]));
}

export const GENERATIONS = [['gen2', 'gen 2'], ['loh', 'large objects'], ['poh', 'pinned objects'], ['gen1', 'gen 1'], ['gen0', 'gen 0']];

// Fits a line to the long-lived generations by least squares. Returns null if there is no clear trend.
export function trend(history) {
  const points = [];
  history.start_ms.forEach((start, place) => {
    const parts = [history.heap.gen2[place], history.heap.loh[place]];
    if (parts.some((part) => part !== null)) points.push([start / 60000, (parts[0] ?? 0) + (parts[1] ?? 0)]);
  });
  if (points.length < 12) return null;
  const n = points.length;
  const mean = points.reduce(([a, b], [x, y]) => [a + x / n, b + y / n], [0, 0]);
  let [xy, xx, yy] = [0, 0, 0];
  for (const [x, y] of points) {
    xy += (x - mean[0]) * (y - mean[1]);
    xx += (x - mean[0]) ** 2;
    yy += (y - mean[1]) ** 2;
  }
  if (!(xx > 0) || !(yy > 0)) return null;
  const slope = xy / xx;
  const minutes = points[n - 1][0] - points[0][0];
  if (minutes < 2) return null;
  const fits = (xy * xy) / (xx * yy) > 0.6;
  if (!fits || Math.abs(slope * minutes) < 0.05 * mean[1]) return null;
  const at = (minute) => mean[1] + slope * (minute - mean[0]);
  return { slope, from: points[0][0] * 60000, to: points[n - 1][0] * 60000, first: at(points[0][0]), last: at(points[n - 1][0]) };
}

// Returns the heap at points in time: after each collection if the record contains it, otherwise the last value of each
// bucket.
function heapPoints({ history, heap }) {
  if (heap) return heap.at_ms.map((at, place) => ({ at, place, sizes: heap.heap, committed: heap.committed[place] }));
  return history.start_ms.map((start, place) => ({ at: start + history.bucket_ms / 2, place, sizes: history.heap, committed: history.committed[place] }));
}

export function heapChart(record, width) {
  const { history } = record;
  const frame = frameOf(record, width, 210);
  const points = heapPoints(record);
  const size = ({ sizes, place }, name) => sizes[name][place];
  const places = points.filter((point) => GENERATIONS.some(([name]) => size(point, name) !== null));
  const total = (point) => GENERATIONS.reduce((sum, [name]) => sum + (size(point, name) ?? 0), 0);
  const has = points.filter((point) => point.committed !== null);
  const top = [...places.map(total), ...has.map((point) => point.committed)].reduce((most, value) => Math.max(most, value), 1048576);
  const limit = record.process.heap_limit;
  const shows = limit && limit <= top * 2.5;
  const max = niceBytes(shows ? Math.max(top, limit * 1.04) : top * 1.05);
  const y = (value) => frame.y(Math.min(1.02, value / max));
  const clamp = (x) => Math.min(frame.right, Math.max(LEFT, x));
  const x = (point) => clamp(frame.x(point.at));
  const layers = [];
  let below = places.map(() => 0);
  for (const [name] of GENERATIONS) {
    const above = places.map((point, index) => below[index] + (size(point, name) ?? 0));
    if (places.length && above.some((value, index) => value > below[index])) {
      const up = places.map((point, index) => `${x(point).toFixed(1)} ${y(above[index]).toFixed(1)}`);
      const down = places.map((point, index) => `${x(point).toFixed(1)} ${y(below[index]).toFixed(1)}`).reverse();
      layers.push(h('path', { class: `area ${name}`, d: `M${up.join('L')}L${down.join('L')}z` }));
    }
    below = above;
  }
  if (has.length) layers.push(h('path', { class: 'line committed', d: `M${has.map((point) => `${x(point).toFixed(1)} ${y(point.committed).toFixed(1)}`).join('L')}` }));
  const lean = trend(history);
  if (lean) layers.push(h('line', { class: 'line trend', x1: clamp(frame.x(lean.from)), y1: y(Math.max(0, lean.first)), x2: clamp(frame.x(lean.to)), y2: y(Math.max(0, lean.last)) }));
  if (shows) {
    layers.push(h('line', { class: 'line limit', x1: LEFT, x2: frame.right, y1: y(limit), y2: y(limit) }));
    layers.push(h('text', { class: 'axis limit', x: frame.right - 4, y: y(limit) - 5, 'text-anchor': 'end' }, `limit ${bytes(limit)}`));
  } else if (limit) {
    layers.push(h('text', { class: 'axis', x: frame.right - 4, y: TOP + 12, 'text-anchor': 'end' }, `limit ${bytes(limit)}, above this chart`));
  }
  return frame.svg('Heap after collections by generation', [
    frame.grid([[0, '0'], [0.5, bytes(max / 2)], [1, bytes(max)]]),
    frame.unknown(history.attached_ms),
    layers,
  ], {
    onpointermove: (event) => {
      const ms = frame.at(event.clientX - event.currentTarget.getBoundingClientRect().left);
      if (ms < frame.from || ms > frame.to) return hideTip();
      const point = points.length ? points.reduce((best, point) => (Math.abs(point.at - ms) < Math.abs(best.at - ms) ? point : best)) : null;
      if (!point || ms < (history.attached_ms ?? 0)) return showTip(event, [timeOfDay(ms), point ? 'not monitored yet' : 'no collections']);
      const container = record.heap ? null : history.container_memory[point.place];
      showTip(event, [
        `${timeOfDay(point.at)}, heap ${places.includes(point) ? bytes(total(point)) : 'unknown'}`,
        ...GENERATIONS.map(([name, label]) => `${label} ${bytes(size(point, name))}`),
        point.committed === null ? 'committed unknown' : `committed ${bytes(point.committed)}`,
        ...(container === null ? [] : [`container ${bytes(container)}`]),
      ]);
    },
    onpointerleave: hideTip,
  });
}

const MARKS = {
  g0: (x, y) => `M${x - 2.4} ${y}a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0z`,
  g1: (x, y) => `M${x - 2.6} ${y - 2.6}h5.2v5.2h-5.2z`,
  g2: (x, y) => `M${x} ${y - 4.6}l4.4 7.6h-8.8z`,
  bg: (x, y) => `M${x} ${y - 4.2}l4.2 4.2-4.2 4.2-4.2-4.2z`,
  gx: (x, y) => `M${x - 3} ${y - 3}l6 6m0-6l-6 6`,
};

export function mark(name) {
  return h('svg', { class: `mark ${name}`, width: 12, height: 12, viewBox: '0 0 12 12', 'aria-hidden': 'true' }, h('path', { d: MARKS[name](6, 6) }));
}

const LOW = 1e4;
// Collection selected by keyboard; the selection survives a redraw of the chart.
let selected = null;

// Draws one mark per collection on a logarithmic axis; before the oldest mark, draws the longest pause of each bucket.
// `near` limits the chart to the time with marks.
export function pauseChart(record, width, open, near = false) {
  const { history, pauses } = record;
  const first = pauses.start_ms.reduce((least, start) => Math.min(least, start), Infinity);
  const frame = near ? new Frame(width, 210, Math.min(first, record.at_ms - 1000), record.at_ms) : frameOf(record, width, 210);
  const lengths = pauses.pause_ns.filter((ns) => ns !== null).concat(history.longest_ns.filter((ns) => ns !== null));
  const [longest, shortest] = lengths.reduce(([most, least], ns) => [Math.max(most, ns), Math.min(least, ns)], [1e7, 1e6]);
  const high = 10 ** Math.ceil(Math.log10(longest * 1.05));
  const low = Math.max(LOW, 10 ** Math.floor(Math.log10(Math.max(LOW, shortest))));
  const share = (ns) => (Math.log10(Math.max(ns, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low));
  const ticks = [];
  for (let ns = low; ns <= high; ns *= 10) ticks.push([share(ns), duration(ns).replace('.00', '').replace('.0', '')]);
  const points = [];
  const all = [];
  const drawn = new Map();
  pauses.start_ms.forEach((start, place) => {
    const ns = pauses.pause_ns[place];
    if (start < frame.from || ns === null) return;
    const point = { x: frame.x(Math.min(start, frame.to)), y: frame.y(share(ns)), place, name: kindClass(pauses.generation[place], pauses.type[place]) };
    all.push(point);
    // Many of a hundred thousand marks share a pixel: only the first mark of a pixel is drawn.
    const pixel = `${point.name} ${Math.round(point.x * 2)} ${Math.round(point.y * 2)}`;
    const front = drawn.get(pixel);
    if (front) {
      front.behind = (front.behind ?? 0) + 1;
      return;
    }
    drawn.set(pixel, point);
    points.push(point);
  });
  const shapes = Object.keys(MARKS).map((name) => {
    const d = points.filter((point) => point.name === name).map((point) => MARKS[name](point.x, point.y)).join('');
    return h('path', { class: `dots ${name}`, d: d || 'M0 0' });
  });
  const older = history.start_ms
    .map((start, place) => [start, history.longest_ns[place]])
    .filter(([start, ns]) => ns !== null && start + history.bucket_ms <= first && start >= frame.from - history.bucket_ms)
    .map(([start, ns]) => `M${Math.max(LEFT, frame.x(start)).toFixed(1)} ${frame.y(share(ns)).toFixed(1)}H${Math.max(LEFT, frame.x(start + history.bucket_ms)).toFixed(1)}`)
    .join('');
  const sorted = all.sort((a, b) => pauses.start_ms[a.place] - pauses.start_ms[b.place] || a.place - b.place);
  let chosen = all.find((point) => pauses.number[point.place] === selected) ?? null;
  const cursor = h('circle', { class: 'cursor', r: 8, cx: chosen?.x ?? -20, cy: chosen?.y ?? -20 });
  const describe = ({ place, behind }) => [
    `collection ${pauses.number[place]}: ${kind(pauses.generation[place], pauses.type[place])}`,
    `paused for ${duration(pauses.pause_ns[place])}`,
    `${timeOfDay(pauses.start_ms[place])}, ${pauses.reason[place] ?? 'reason unknown'}`,
    behind ? `${behind} more at this position: use the arrow keys` : 'click to open the collection',
  ];
  const choose = (point, event, svg) => {
    chosen = point;
    selected = point ? pauses.number[point.place] : null;
    const circle = svg.querySelector('.cursor');
    circle.setAttribute('cx', point ? point.x : -20);
    circle.setAttribute('cy', point ? point.y : -20);
    if (point && event) showTip(event, describe(point));
    else hideTip();
  };
  const go = (point) => point && !drag.moved && open(pauses.number[point.place]);
  const nearest = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, distance] = [null, 18 * 18];
    for (const point of points) {
      const away = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (away < distance) [best, distance] = [point, away];
    }
    return best;
  };
  return frame.svg('Pauses over time, one mark per collection. Arrow keys select a mark, Enter opens the collection.', [
    frame.grid(ticks),
    frame.unknown(history.attached_ms),
    h('path', { class: 'older', d: older || 'M0 0' }),
    shapes,
    cursor,
  ], {
    tabindex: 0,
    class: 'chart pointing',
    onpointermove: (event) => choose(nearest(event), event, event.currentTarget),
    onpointerleave: (event) => choose(null, null, event.currentTarget),
    onclick: (event) => go(nearest(event)),
    onkeydown: (event) => {
      const place = chosen ? sorted.indexOf(chosen) : sorted.length;
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step && sorted.length) {
        event.preventDefault();
        const next = sorted[Math.max(0, Math.min(sorted.length - 1, place + step))];
        const box = event.currentTarget.getBoundingClientRect();
        choose(next, { clientX: box.left + next.x, clientY: box.top + next.y }, event.currentTarget);
      } else if (event.key === 'Enter') go(chosen);
    },
  });
}

// Draws the last half hour in a table cell: the heap as an area, stopped time as bars.
export function spark(data) {
  const [width, height] = [150, 30];
  if (!data) return h('svg', { class: 'spark', width, height });
  const step = width / data.stopped.length;
  const top = Math.max(1, ...data.heap.filter((value) => value !== null));
  const points = [];
  let last = null;
  data.heap.forEach((value, place) => {
    if (value !== null) last = value;
    if (last !== null) points.push(`${((place + 0.5) * step).toFixed(1)} ${(height - 2 - (last / top) * (height - 5)).toFixed(1)}`);
  });
  const begin = (data.heap.length - points.length + 0.5) * step;
  const bars = data.stopped
    .map((share, place) => (share ? `M${(place * step).toFixed(1)} ${height}V${(height - Math.max(1.5, Math.min(1, share / 200) * height)).toFixed(1)}h${(step - 0.5).toFixed(1)}V${height}z` : ''))
    .join('');
  const first = data.stopped.findIndex((share) => share !== null);
  const unknown = first < 0 ? width : first * step;
  return h('svg', { class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Heap and stopped time in the last half hour' },
    unknown > 0 ? h('line', { class: 'unknown', x1: 0, x2: unknown, y1: height - 1, y2: height - 1 }) : null,
    points.length > 1 ? h('path', { class: 'area', d: `M${points.join('L')}L${width} ${height}H${begin.toFixed(1)}z` }) : null,
    h('path', { class: 'bars', d: bars || 'M0 0' }),
    points.length > 1 ? h('path', { class: 'heap', d: `M${points.join('L')}` }) : null);
}

// Draws the suspensions and the run of one collection on a timeline.
export function timeline(gc, width) {
  const pauses = gc.pauses.filter((pause) => pause.start_offset_ns !== null);
  const begin = Math.min(gc.start_offset_ns ?? Infinity, ...pauses.map((pause) => pause.start_offset_ns));
  const ends = pauses.map((pause) => pause.start_offset_ns + (pause.pause_ns ?? 0));
  if (gc.start_offset_ns !== null && gc.duration_ns !== null) ends.push(gc.start_offset_ns + gc.duration_ns);
  const end = Math.max(...ends);
  if (!(end > begin)) return null;
  const height = 98;
  const left = 8;
  const x = (ns) => left + ((ns - begin) / (end - begin)) * (width - left - 10);
  const rows = [];
  if (gc.start_offset_ns !== null && gc.duration_ns !== null) {
    const concurrent = gc.type === 'background' && !gc.became_blocking;
    rows.push(h('rect', { class: concurrent ? 'run concurrent' : 'run', x: x(gc.start_offset_ns), y: 20, width: Math.max(1, x(gc.start_offset_ns + gc.duration_ns) - x(gc.start_offset_ns)), height: 16, rx: 2 },
      h('title', {}, `GCStart to GCEnd: ${duration(gc.duration_ns)}`)));
    rows.push(h('text', { class: 'axis', x: x(gc.start_offset_ns), y: 14 }, concurrent ? 'concurrent with the program' : 'collection'));
  }
  pauses.forEach((pause) => {
    const suspend = pause.suspend_ns ?? 0;
    const total = pause.pause_ns ?? 0;
    rows.push(h('rect', { class: 'stop', x: x(pause.start_offset_ns), y: 42, width: Math.max(2, x(pause.start_offset_ns + total) - x(pause.start_offset_ns)), height: 20, rx: 2 },
      h('title', {}, `stopped ${duration(total)} (${pause.kind})`)));
    if (suspend) {
      rows.push(h('rect', { class: 'suspend', x: x(pause.start_offset_ns), y: 42, width: Math.max(2, x(pause.start_offset_ns + suspend) - x(pause.start_offset_ns)), height: 20, rx: 2 },
        h('title', {}, `time to suspend all threads: ${duration(suspend)}`)));
    }
  });
  rows.push(h('text', { class: 'axis', x: left, y: 86 }, '0'));
  rows.push(h('text', { class: 'axis', x: width - 10, y: 86, 'text-anchor': 'end' }, duration(end - begin)));
  rows.push(h('line', { class: 'grid', x1: left, x2: width - 10, y1: 70, y2: 70 }));
  return h('svg', { class: 'chart', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Suspensions of this collection on a timeline' }, rows);
}
