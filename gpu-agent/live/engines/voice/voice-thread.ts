import { parentPort } from 'node:worker_threads';
import type { FloatTensor } from '@semblance/engine-onnx/sessions/protocol';
import { RvcConverter } from '@semblance/voice/rvc/rvc-converter';
import type { RunModel } from '@semblance/voice/rvc/rvc-models';
import { SharedChunk } from './shared-chunk.ts';
import type { FromVoiceThread, ToVoiceThread } from './voice-protocol.ts';

/**
 * Entry file of a thread that converts streams with the voices of models. It has one converter per stream and
 * converts each message as soon as the models have answered.
 */

const port = parentPort;
if (!port) throw new Error('voice-thread.ts runs in a worker thread only');

interface Stream {
  readonly converter: RvcConverter;
  readonly chunk: SharedChunk;
}

const streams = new Map<number, Stream>();
/** Model runs that were requested and not answered. */
const runs = new Map<number, PromiseWithResolvers<FloatTensor> & { readonly stream: number }>();
let lastRun = 0;

function send(message: FromVoiceThread, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer);
}

function runnerOf(stream: number): RunModel {
  return (model, feeds) => {
    const run = ++lastRun;
    const pending = { stream, ...Promise.withResolvers<FloatTensor>() };
    runs.set(run, pending);
    const transfers = Object.values(feeds).map(({ data }) => data.buffer);
    send({ type: 'run', stream, run, model, feeds }, transfers);
    return pending.promise;
  };
}

function ran({ run, output, failure }: Extract<ToVoiceThread, { type: 'ran' }>): void {
  const pending = runs.get(run);
  runs.delete(run);
  if (output) pending?.resolve(output);
  else pending?.reject(new Error(failure));
}

/** Closes a stream. Nobody waits for the pending model runs of its converter. */
function close(stream: number): void {
  streams.delete(stream);
  for (const [run, asked] of runs) if (asked.stream === stream) runs.delete(run);
}

function open({ stream, options, chunk }: Extract<ToVoiceThread, { type: 'open' }>): void {
  streams.set(stream, {
    converter: new RvcConverter({ ...options, run: runnerOf(stream) }),
    chunk: new SharedChunk(chunk),
  });
  send({ type: 'opened', stream });
}

async function convert(id: number): Promise<void> {
  const stream = streams.get(id);
  if (!stream) throw new Error('a chunk of a stream that is not open');
  const { converter, chunk } = stream;
  chunk.put(await converter.push(chunk.samples));
  send(id);
}

async function answer(stream: number, work: () => void | Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    send({ type: 'failed', stream, message: text });
  }
}

port.on('message', (message: ToVoiceThread) => {
  if (typeof message === 'number') void answer(message, () => convert(message));
  else if (message.type === 'open') void answer(message.stream, () => open(message));
  else if (message.type === 'close') close(message.stream);
  else ran(message);
});

send({ type: 'warm' });
