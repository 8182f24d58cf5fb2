// One view as it changes: server-sent events, which come back by themselves.

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

// Follows a view: `handlers` by the name of the event.
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
      // That of a process that exited stands still.
      if (record.process) stands = record.process.state === 'ended';
      if (record.at_ms && !stands) clock(record.at_ms);
      handler(record);
    });
  }
  opened.onerror = () => {
    if (opened !== source) return;
    say('off', `disconnected${last()}`);
    // Refused (all places of viewers taken, or gcwatch restarts): the browser gives up, so this asks again.
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

// A record once; `null` and the refusal where there is none.
export async function once(path) {
  try {
    const answer = await fetch(path, { headers: { accept: 'application/json' } });
    const body = await answer.json();
    return answer.ok ? [body, null] : [null, body];
  } catch (error) {
    return [null, { error: `gcwatch does not respond: ${error.message}`, remedy: 'check whether it runs; the page retries' }];
  }
}
