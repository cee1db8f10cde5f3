/** The form: opens a session, connects its socket, and tells how it goes until it ends. */
import { Figures } from './figures.js';
import { streamPictures } from './picture.js';
import { streamVoice } from './voice.js';

/** The page lies beside the operations of the API, wherever a proxy may have put both. */
const API = new URL('./', location.href);

/** @template {HTMLElement} T @param {string} id @param {new () => T} type @returns {T} */
function element(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`);
  return found;
}
/** @param {string} id */
const input = (id) => element(id, HTMLInputElement);
const [key, minutes, file] = [input('key'), input('minutes'), input('file')];
const [voice, prompt] = [element('voice', HTMLSelectElement), element('prompt', HTMLTextAreaElement)];
const [start, stop] = [element('start', HTMLButtonElement), element('stop', HTMLButtonElement)];
const preview = new Audio();
preview.controls = true;
/** @param {string} id @param {string} text */
const show = (id, text) => {
  element(id, HTMLElement).textContent = text;
};
/** @param {string} text @param {'idle' | 'streaming' | 'failed'} state */
function say(text, state = 'idle') {
  show('status', text);
  element('status', HTMLElement).dataset.state = state;
}

/** @param {string} path @param {unknown} [body] with one it is a POST */
async function api(path, body) {
  const response = await fetch(new URL(path, API), {
    headers: {
      authorization: `Bearer ${key.value}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${answer.error.code}: ${answer.error.message}`);
  return answer;
}

/** @param {string} name */
const chosen = (name) => String(new FormData(element('form', HTMLFormElement)).get(name));

function showSettings() {
  const pictures = chosen('what') === 'full-live-swap';
  element('voice-settings', HTMLElement).hidden = pictures;
  element('picture-settings', HTMLElement).hidden = !pictures;
  element('pictures', HTMLElement).hidden = !pictures;
  element('headphones', HTMLElement).hidden = pictures;
  minutes.max = pictures ? '240' : '120';
  show('device-name', pictures ? 'camera' : 'microphone');
  show('lost-name', pictures ? 'Dropped pictures' : 'Gaps in the sound');
  show(
    'delay-meaning',
    pictures
      ? 'Delay is from a picture sent to the same picture back, told apart by the cells in its corner.'
      : 'Delay is from a chunk sent to as many samples back; within these, a voice of the builtin engine sounds 25 ms later still.',
  );
}

/** @type {{ id: string, name: string, description: string, preview_url: string }[]} */
let voices = [];
async function loadVoices() {
  voices = await api('voices');
  voice.replaceChildren(
    new Option('my own, unchanged', ''),
    ...voices.map(({ id, name, description }) => new Option(`${name}: ${description}`, id)),
  );
  say(voices.length === 0 ? 'The service has no voices at present.' : `${voices.length} voices.`);
}

/** @param {string} url @returns {Promise<{ socket: WebSocket, format: any }>} */
function connect(url) {
  const socket = new WebSocket(url);
  socket.binaryType = 'arraybuffer';
  return new Promise((resolve, reject) => {
    socket.addEventListener('message', ({ data }) => resolve({ socket, format: JSON.parse(data) }), {
      once: true,
    });
    socket.addEventListener('close', ({ code, reason }) =>
      reject(new Error(`The socket was closed (${code}) ${reason}`)),
    );
  });
}

async function run() {
  const what = chosen('what');
  const source = chosen('from') === 'file' ? file.files?.[0] : undefined;
  if (chosen('from') === 'file' && !source) throw new Error('Choose a file first.');
  show('charged', '–');
  say('Opening a session …');
  const session = await api(`${what}/session`, {
    duration_minutes: minutes.valueAsNumber,
    ...(what === 'voice' && voice.value ? { voice_profile_id: voice.value } : {}),
    ...(what !== 'voice' && prompt.value ? { prompt: prompt.value } : {}),
  });
  const url = `${session.stream_url}?session_token=${encodeURIComponent(session.session_token)}`;
  const { socket, format } = await connect(url);
  const closed = new Promise((/** @type {(event: CloseEvent) => void} */ resolve) =>
    socket.addEventListener('close', resolve),
  );
  const hangUp = () => socket.close();
  stop.disabled = false;
  stop.addEventListener('click', hangUp);
  const figures = new Figures(show);
  /** @type {{ stop(): void } | undefined} */
  let stream;
  try {
    stream =
      what === 'voice'
        ? await streamVoice(socket, format, source, figures)
        : await streamPictures(socket, format, source, figures, {
            before: element('before', HTMLCanvasElement),
            after: element('after', HTMLCanvasElement),
          });
    const cap = `at most ${session.max_duration_sec} s, ${session.max_cost_usd} USD`;
    say(`Streaming, ${cap}. ${format.note ?? ''}`, 'streaming');
    const { code, reason } = await closed;
    say(`The session has ended (${code}${reason ? `, ${reason}` : ''}).`);
  } finally {
    socket.close();
    stream?.stop();
    figures.stop();
    stop.disabled = true;
    stop.removeEventListener('click', hangUp);
  }
  await showCharge(session.session_id);
}

/** The charge is settled a moment after the socket is closed. @param {string} id */
async function showCharge(id) {
  for (let attempt = 0; attempt < 10; attempt++) {
    /** @type {{ id: string, status: string, charged_usd: number, reason: string | null }[]} */
    const usage = await api('usage?limit=20');
    const entry = usage.find((one) => one.id === id);
    if (entry && entry.status !== 'processing') {
      show('charged', `${entry.charged_usd} USD${entry.reason ? ` (${entry.reason})` : ''}`);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

/** @param {() => Promise<void>} action */
async function guarded(action) {
  start.disabled = true;
  try {
    await action();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), 'failed');
  } finally {
    start.disabled = false;
  }
}

// Not sent to the server: what comes after # stays in the browser.
key.value = new URLSearchParams(location.hash.slice(1)).get('key') ?? '';
history.replaceState(null, '', location.pathname);
element('form', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  void guarded(run);
});
element('form', HTMLFormElement).addEventListener('change', showSettings);
element('load-voices', HTMLButtonElement).addEventListener('click', () => void guarded(loadVoices));
voice.addEventListener('change', () => {
  const url = voices.find(({ id }) => id === voice.value)?.preview_url;
  element('preview', HTMLElement).replaceChildren(...(url ? [preview] : []));
  if (url) preview.src = url;
  else preview.pause();
});
showSettings();
