/** The form: opens a session, connects its socket, and shows its state until it ends. */
import { Figures } from './figures.js';
import { openVideo, streamPictures } from './picture.js';
import { atEnd, Over, orEnd, watchLine } from './run.js';
import { openSound, streamVoice } from './voice.js';

/** The page lies beside the operations of the API, wherever a proxy puts both. */
const API = new URL('./', location.href);

/** Longest wait for an answer, in ms; a dead connection would keep the page waiting for minutes. */
const ANSWER_MS = 30_000;

/** Close code of a session that used up its granted time, the one agreed ending by the service. */
const GRANTED_USED_UP = 4001;

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
const stopButton = element('stop', HTMLButtonElement);
let busy = false;
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
  const request = {
    headers: {
      authorization: `Bearer ${key.value}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    signal: AbortSignal.timeout(ANSWER_MS),
  };
  /** @param {Error} cause @param {string} otherwise */
  const fail = (cause, otherwise) => {
    const late = cause.name === 'TimeoutError';
    throw new Error(late ? `The service did not answer within ${ANSWER_MS / 1000} s.` : otherwise, { cause });
  };
  const response = await fetch(new URL(path, API), request).catch((cause) =>
    fail(cause, `The service cannot be reached (${cause.message}).`),
  );
  const answer = await response
    .json()
    .catch((cause) => fail(cause, `What answered (${response.status}) is not the service.`));
  if (!response.ok)
    throw new Error(
      answer.error
        ? `${answer.error.code}: ${answer.error.message}`
        : `The service answers ${response.status}.`,
    );
  return answer;
}

/** Also reads disabled controls. @param {string} name */
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.getAttribute('value');

function showSettings() {
  const pictures = chosen('what') === 'full-live-swap';
  element('voice-settings', HTMLElement).hidden = pictures;
  element('picture-settings', HTMLElement).hidden = !pictures;
  element('pictures', HTMLElement).hidden = !pictures;
  element('headphones', HTMLElement).hidden = pictures;
  element('in-front', HTMLElement).hidden = !pictures;
  element('unshown-figure', HTMLElement).hidden = !pictures;
  file.accept = pictures ? 'video/*' : 'audio/*,video/*';
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

/**
 * Returns the address of a session's socket at the origin of this page, the only one to which it may connect. The
 * service answers there as at its public name.
 * @param {{ stream_url: string, session_token: string }} session
 */
function socketOf({ stream_url, session_token }) {
  const url = new URL(new URL(stream_url).pathname, location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  url.searchParams.set('session_token', session_token);
  return url.href;
}

/**
 * Connects the socket of a session and waits for its format. The socket ends the run, and the run ends the socket.
 * @param {string} url @param {AbortController} run @returns {Promise<{ socket: WebSocket, format: any }>}
 */
function connect(url, run) {
  const socket = new WebSocket(url);
  socket.binaryType = 'arraybuffer';
  atEnd(run.signal, () => {
    // A socket that is still connecting is closed after it has connected; otherwise the service would wait for it.
    if (socket.readyState === WebSocket.CONNECTING) socket.addEventListener('open', () => socket.close());
    else socket.close();
  });
  let connected = false;
  socket.addEventListener('open', () => {
    connected = true;
  });
  socket.addEventListener('close', ({ code, reason }) => {
    // Browsers report this code for every close without a close frame.
    if (code === 1006)
      run.abort(new Error(connected ? 'the line was lost' : 'its socket could not be opened'));
    else run.abort(new (code === GRANTED_USED_UP ? Over : Error)(`${code}${reason ? `, ${reason}` : ''}`));
  });
  const first = new Promise((/** @type {(event: MessageEvent) => void} */ resolve) =>
    socket.addEventListener('message', resolve, { once: true }),
  );
  return orEnd(
    first.then(({ data }) => ({ socket, format: JSON.parse(data) })),
    run.signal,
  );
}

/**
 * Streams until the run is over. The source is opened first, because without it there must be no session.
 * @param {AbortController} run @param {(session: any) => void} onSession
 */
async function stream(run, onSession) {
  const figures = new Figures(show);
  atEnd(run.signal, () => figures.stop());
  show('charged', '–');
  const what = chosen('what');
  const pictures = what === 'full-live-swap';
  const chosenFile = chosen('from') === 'file' ? file.files?.[0] : undefined;
  if (chosen('from') === 'file' && !chosenFile) throw new Error('Choose a file first.');
  say(chosenFile ? 'Reading the file …' : `Asking for the ${pictures ? 'camera' : 'microphone'} …`);
  const video = pictures ? await openVideo(chosenFile, run) : undefined;
  const sound = pictures ? undefined : await openSound(chosenFile, run);
  say('Opening a session …');
  // Awaited in any case, so that an opened session is also closed.
  const session = await api(`${what}/session`, {
    duration_minutes: minutes.valueAsNumber,
    ...(!pictures && voice.value ? { voice_profile_id: voice.value } : {}),
    ...(pictures && prompt.value ? { prompt: prompt.value } : {}),
  });
  onSession(session);
  const { socket, format } = await connect(socketOf(session), run);
  if (video) {
    const canvases = {
      before: element('before', HTMLCanvasElement),
      after: element('after', HTMLCanvasElement),
    };
    await streamPictures(socket, format, video, figures, run, canvases);
  }
  if (sound) await streamVoice(socket, format, sound, figures, run);
  watchLine(run, figures);
  const cap = `at most ${session.max_duration_sec} s, ${session.max_cost_usd} USD`;
  say(`Streaming, ${cap}. ${format.note ?? ''}`, 'streaming');
  await orEnd(new Promise(() => {}), run.signal);
}

async function start() {
  const run = new AbortController();
  const hangUp = () => {
    say('Stopping …');
    run.abort(new Over('stopped'));
  };
  stopButton.addEventListener('click', hangUp);
  stopButton.disabled = false;
  /** @type {{ session_id: string } | undefined} */
  let session;
  try {
    await stream(run, (opened) => {
      session = opened;
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const state = error instanceof Over ? 'idle' : 'failed';
    if (session) say(`The session has ended (${reason}).`, state);
    else say(error instanceof Over ? 'Stopped before a session was opened.' : reason, state);
  } finally {
    run.abort();
    stopButton.disabled = true;
    stopButton.removeEventListener('click', hangUp);
  }
  if (session) await showCharge(session.session_id);
}

/** Shows the charge, which is settled a moment after the socket is closed. @param {string} id */
async function showCharge(id) {
  try {
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
    show('charged', 'not settled yet');
  } catch (error) {
    // The reason for the session's end stays in the line above.
    show('charged', error instanceof Error ? error.message : String(error));
  }
}

/**
 * Runs one action at a time; nothing else can be started or changed meanwhile. @param {() => Promise<void>} action
 */
async function guarded(action) {
  if (busy) return;
  busy = true;
  const controls = [...element('form', HTMLFormElement).elements].filter((one) => one !== stopButton);
  for (const control of controls) control.toggleAttribute('disabled', true);
  try {
    await action();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), 'failed');
  } finally {
    for (const control of controls) control.toggleAttribute('disabled', false);
    busy = false;
  }
}

// The part after # stays in the browser and is not sent to the server.
key.value = new URLSearchParams(location.hash.slice(1)).get('key') ?? '';
history.replaceState(null, '', location.pathname);
element('form', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  void guarded(start);
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
