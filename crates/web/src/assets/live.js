// Updates of one view: server-sent events with automatic reconnection.

import { clock, timeOfDay } from './format.js';

let source = null;
let shown = null;
let lastEvent = 0;

const badge = () => document.getElementById('live');

function say(state, text) {
  const element = badge();
  element.className = `live ${state}`;
  if (element.textContent !== text) element.textContent = text;
}

const last = () => `, last update ${timeOfDay(lastEvent)}`;

// Follows a view; `handlers` are handlers by event name.
export function follow(query, handlers) {
  stop();
  shown = query;
  lastEvent = Date.now();
  say('waiting', 'connecting');
  let stands = false;
  const opened = new EventSource(`/api/v1/events?${query}`);
  source = opened;
  for (const [name, handler] of Object.entries(handlers)) {
    opened.addEventListener(name, (event) => {
      if (opened !== source) return;
      lastEvent = Date.now();
      say('on', 'live');
      const record = JSON.parse(event.data);
      // The page of an exited process shows the time of its last record, so the clock does not follow the events.
      if (record.process) stands = record.process.state === 'ended';
      if (record.at_ms && !stands) clock(record.at_ms);
      handler(record);
    });
  }
  opened.onerror = () => {
    if (opened !== source) return;
    say('off', `disconnected${last()}`);
    // The request was refused (all viewer places are taken, or gcwatch restarts): the browser does not retry, so the
    // page retries.
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => opened === source && follow(query, handlers), 5000);
  };
}

export function stop() {
  source?.close();
  source = null;
  shown = null;
}

setInterval(() => {
  if (shown && Date.now() - lastEvent > 20000) say('off', `disconnected${last()}`);
}, 2000);

// Returns a record once; `null` and the refusal if it is not available.
export async function once(path) {
  try {
    const answer = await fetch(path, { headers: { accept: 'application/json' } });
    const body = await answer.json();
    return answer.ok ? [body, null] : [null, body];
  } catch (error) {
    return [null, { error: `gcwatch does not respond: ${error.message}`, remedy: 'check that gcwatch runs; the page retries' }];
  }
}
