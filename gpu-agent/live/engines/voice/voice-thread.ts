import { parentPort } from 'node:worker_threads';
import type { FloatTensor } from '../../../engines/onnx/sessions/protocol.ts';
import { createVoiceConverter } from '../../voice/converter.ts';
import { openConverter } from '../../voice/open-converter.ts';
import type { RunModel } from '../../voice/rvc/rvc-models.ts';
import type { FromVoiceThread, ToVoiceThread } from './voice-protocol.ts';

/**
 * Entry of a thread that carries voice streams: one converter for each, whatever comes is converted at once, or as soon as
 * the models have answered.
 */

const port = parentPort;
if (!port) throw new Error('voice-thread.ts runs in a worker thread only');

const RATE = 48_000;
/** Until about so much sound has gone through, the code is not compiled and a chunk takes several times as long. */
const WARM_UP_SECONDS = 3;

const converters = new Map<number, ReturnType<typeof openConverter>>();
/** Runs of models that are asked for. */
const runs = new Map<number, PromiseWithResolvers<FloatTensor> & { readonly stream: number }>();
let lastRun = 0;

function send(message: FromVoiceThread, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer);
}

function runnerOf(stream: number): RunModel {
  return (model, feeds) => {
    const run = ++lastRun;
    const asked = { stream, ...Promise.withResolvers<FloatTensor>() };
    runs.set(run, asked);
    const given = Object.values(feeds).map(({ data }) => data.buffer);
    send({ type: 'run', stream, run, model, feeds }, given);
    return asked.promise;
  };
}

function ran({ run, output, failure }: Extract<ToVoiceThread, { type: 'ran' }>): void {
  const asked = runs.get(run);
  runs.delete(run);
  if (output) asked?.resolve(output);
  else asked?.reject(new Error(failure));
}

/** Nobody waits for what its converter still waits for. */
function close(stream: number): void {
  converters.delete(stream);
  for (const [run, asked] of runs) if (asked.stream === stream) runs.delete(run);
}

async function answer(message: Extract<ToVoiceThread, { type: 'open' | 'convert' }>): Promise<void> {
  const { stream } = message;
  if (message.type === 'open') {
    converters.set(stream, openConverter(message.options, runnerOf(stream)));
    send({ type: 'opened', stream });
    return;
  }
  const converter = converters.get(stream);
  if (!converter) throw new Error('a chunk of a stream that is not open');
  const samples = (await converter.push(new Int16Array(message.samples))).buffer as ArrayBuffer;
  send({ type: 'converted', stream, samples }, [samples]);
}

port.on('message', (message: ToVoiceThread) => {
  if (message.type === 'close') return close(message.stream);
  if (message.type === 'ran') return ran(message);
  answer(message).catch((error: unknown) => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    send({ type: 'failed', stream: message.stream, message: text });
  });
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
