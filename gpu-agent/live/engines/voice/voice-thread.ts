import { parentPort } from 'node:worker_threads';
import { createVoiceConverter, type VoiceConverter } from '../../voice/converter.ts';
import type { FromVoiceThread, ToVoiceThread } from './voice-protocol.ts';

/** Entry of a thread that carries voice streams: one converter for each, whatever comes is converted at once. */

const port = parentPort;
if (!port) throw new Error('voice-thread.ts runs in a worker thread only');

const RATE = 48_000;
/** Until about so much sound has gone through, the code is not compiled and a chunk takes several times as long. */
const WARM_UP_SECONDS = 3;

const converters = new Map<number, VoiceConverter>();

function send(message: FromVoiceThread, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer);
}

function answer(message: Exclude<ToVoiceThread, { type: 'close' }>): void {
  const { stream } = message;
  if (message.type === 'open') {
    converters.set(stream, createVoiceConverter(message.options));
    send({ type: 'opened', stream });
    return;
  }
  const converter = converters.get(stream);
  if (!converter) throw new Error('a chunk of a stream that is not open');
  const samples = converter.push(new Int16Array(message.samples)).buffer as ArrayBuffer;
  send({ type: 'converted', stream, samples }, [samples]);
}

port.on('message', (message: ToVoiceThread) => {
  if (message.type === 'close') {
    converters.delete(message.stream);
    return;
  }
  try {
    answer(message);
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    send({ type: 'failed', stream: message.stream, message: text });
  }
});

/** Vowel and noise in turn, so that both ways through the converter are compiled. */
function warmUp(): void {
  const converter = createVoiceConverter({
    sampleRate: RATE,
    voice: {
      ...{ id: 'warm-up', name: 'warm-up', description: 'heard by nobody' },
      pitchHz: { low: 205, high: 290 },
      formantShift: 1.17,
      timbre: [
        { hz: 200, db: -2 },
        { hz: 3_000, db: 3 },
      ],
    },
  });
  const chunk = RATE / 50;
  for (let at = 0; at < WARM_UP_SECONDS * RATE; at += chunk) {
    const voiced = Math.floor(at / (RATE / 4)) % 2 === 0;
    const samples = Int16Array.from({ length: chunk }, (_, i) => {
      if (!voiced) return ((Math.imul(at + i, 2_654_435_761) >>> 16) % 2_000) - 1_000;
      let sum = 0;
      for (let harmonic = 1; harmonic <= 8; harmonic++)
        sum += Math.sin((2 * Math.PI * 120 * harmonic * (at + i)) / RATE) / harmonic;
      return 6_000 * sum;
    });
    converter.push(samples);
  }
}

warmUp();
send({ type: 'warm' });
