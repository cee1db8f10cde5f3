/** Sends sound from a microphone or a file to the socket, and plays what comes back. */
import { demandSecure, openDevice } from './device.js';
import { atEnd, orEnd } from './run.js';

/** Usual rate of sessions, so that a file is seldom decoded twice. */
const USUAL_RATE = 48_000;

/** @typedef {{ stream: MediaStream } | { file: File, buffer: AudioBuffer }} Sound */

/**
 * Opens the sound; its faults are reported before there is a session.
 * @param {File | undefined} file undefined: the microphone
 * @param {AbortController} run
 * @returns {Promise<Sound>}
 */
export async function openSound(file, run) {
  // Browsers allow audio worklets on secure pages only, for files too.
  demandSecure(file ? 'the means to work on sound' : 'a microphone');
  if (file)
    return { file, buffer: await orEnd(decode(new OfflineAudioContext(1, 1, USUAL_RATE), file), run.signal) };
  // Enhancements for calls distort the voice and add delay.
  const audio = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 };
  return { stream: await openDevice('microphone', { audio }, run) };
}

/**
 * @param {WebSocket} socket whose next text frame is the first of the session
 * @param {{ sample_rate: number, chunk_frames: number }} format
 * @param {Sound} sound
 * @param {import('./figures.js').Figures} figures
 * @param {AbortController} run
 */
export async function streamVoice(socket, format, sound, figures, { signal }) {
  const context = new AudioContext({ sampleRate: format.sample_rate, latencyHint: 'interactive' });
  atEnd(signal, () => void context.close());
  const modules = ['capture-worklet.js', 'play-worklet.js'].map((name) =>
    context.audioWorklet.addModule(new URL(name, import.meta.url)),
  );
  await orEnd(Promise.all(modules), signal);
  const source = await orEnd(nodeOf(context, sound), signal);
  const capture = new AudioWorkletNode(context, 'capture', {
    numberOfOutputs: 0,
    processorOptions: { chunkFrames: format.chunk_frames },
  });
  const play = new AudioWorkletNode(context, 'play', { numberOfInputs: 0, outputChannelCount: [1] });
  play.connect(context.destination);

  /** When each chunk that has not come back whole was sent, oldest first, and how many samples of the first are back. @type {number[]} */
  const sentAt = [];
  let back = 0;
  capture.port.onmessage = ({ data }) => {
    if (signal.aborted || socket.readyState !== WebSocket.OPEN) return;
    sentAt.push(performance.now());
    socket.send(data);
    figures.sent++;
  };
  play.port.onmessage = ({ data }) => {
    figures.lost = data.gaps;
    figures.waiting = `${data.waitingMs.toFixed(0)} ms`;
  };
  socket.addEventListener('message', ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return;
    figures.received++;
    back += data.byteLength / 2;
    while (back >= format.chunk_frames && sentAt.length > 0) {
      figures.delay(performance.now() - /** @type {number} */ (sentAt.shift()));
      back -= format.chunk_frames;
    }
    play.port.postMessage(data, [data]);
  });
  source.connect(capture);
  if (source instanceof AudioBufferSourceNode) source.start();
}

/** @param {AudioContext} context @param {Sound} sound @returns {Promise<AudioNode>} */
async function nodeOf(context, sound) {
  if ('stream' in sound) return context.createMediaStreamSource(sound.stream);
  const fits = sound.buffer.sampleRate === context.sampleRate;
  const buffer = fits ? sound.buffer : await decode(context, sound.file);
  return new AudioBufferSourceNode(context, { buffer, loop: true });
}

/** @param {BaseAudioContext} context whose rate the result has @param {File} file */
async function decode(context, file) {
  const bytes = await file.arrayBuffer();
  try {
    return await context.decodeAudioData(bytes);
  } catch (cause) {
    throw new Error('This browser finds no sound in the file that it can read.', { cause });
  }
}
