/**
 * Entry file of a thread with the sessions of one device. onnxruntime's Node.js binding loads and runs models on
 * the calling thread, which is blocked meanwhile.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import { deviceFaultOf } from '@semblance/engine-api/device-fault';
import { threadStarted, throughGate } from '@semblance/vision/models/thread-gate';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { speechGraph } from '../speech/voice-graph.ts';
import { classGraph, PARSER_CLASSES } from '../stages/class-graph.ts';
import { FIXED_SIZES } from './batch.ts';
import type {
  FirstRun,
  FloatTensor,
  FloatTensors,
  FromSession,
  Provider,
  ThreadModel,
  ThreadOptions,
  ThreadTensor,
  ToSession,
} from './protocol.ts';
import { isMissing, sessionOptions } from './session-options.ts';

const port = parentPort;
if (!port) throw new Error('session-thread.ts runs in a worker thread only');
const options = workerData as ThreadOptions;
threadStarted();
hideFloat16Array();
const sessions = new Map<string, { session: InferenceSession; model: ThreadModel }>();

/**
 * Hides Float16Array. When it exists at the creation of the first tensor, tensors of half floats use it, and the
 * native part cannot read it ("not enough space: expected 98304, got 0"). Without it they contain the bits, which
 * the native part can read.
 */
function hideFloat16Array(): void {
  const { Float16Array: hidden } = globalThis;
  Reflect.deleteProperty(globalThis, 'Float16Array');
  new Tensor('float32', new Float32Array(1), [1]);
  Object.defineProperty(globalThis, 'Float16Array', { value: hidden, configurable: true, writable: true });
}

/**
 * Opens the sessions. A provider that is missing is skipped for good. After it has loaded one model, a failure to
 * load another is a fault.
 */
async function open(): Promise<void> {
  const missing = new Map<Provider, string>();
  const singles: { model: ThreadModel; single: FirstRun }[] = [];
  for (const model of options.models) {
    const provider = await load(model, missing, singles.length === 0);
    singles.push({ model, single: { model: model.name, provider, shapes: await firstRun(model, 1) } });
  }
  // Larger runs come last, so that they never take the memory that another model needs to run at all.
  const runs: FirstRun[] = [];
  for (const { model, single } of singles)
    runs.push(model.batch ? { ...single, ...(await largerRuns(model, single)) } : single);
  const notes = [...missing].map(
    ([provider, reason]) => `the execution provider ${provider} is not available: ${reason}`,
  );
  send({ type: 'ready', runs, notes });
}

async function load(model: ThreadModel, missing: Map<Provider, string>, first: boolean): Promise<Provider> {
  for (const provider of options.providers) {
    if (missing.has(provider)) continue;
    try {
      sessions.set(model.name, { session: await create(model, provider), model });
      return provider;
    } catch (error) {
      const reason = describeError(error);
      if (!isMissing(provider, reason, first)) {
        throw new Error(`${model.name} cannot be loaded (${provider}): ${reason}`);
      }
      missing.set(provider, reason);
    }
  }
  const why = [...missing].map(([provider, reason]) => `${provider}: ${reason}`).join('; ');
  throw new Error(
    `no execution provider of ${options.providers.join(', ')} is available (${why}); install what it needs, or add cpu to SEMBLANCE_ONNX_PROVIDERS`,
  );
}

function create(model: ThreadModel, provider: Provider): Promise<InferenceSession> {
  const settings = sessionOptions(provider, options.device, options.threads);
  return throughGate(() => {
    const graph = editedGraph(model);
    return graph ? InferenceSession.create(graph, settings) : InferenceSession.create(model.path, settings);
  });
}

/** Returns the graph of a model whose contract changes it. */
function editedGraph({ path, edit }: ThreadModel): Uint8Array | undefined {
  if (edit === 'classes') return classGraph(path, PARSER_CLASSES);
  return edit && speechGraph(path, edit);
}

type Shapes = Record<string, readonly number[]>;

/**
 * Runs a model once on zeros, or on the values of its contract. This allocates memory, selects kernels, and reveals
 * the sizes that were left open.
 */
async function firstRun(model: ThreadModel, items: number): Promise<Shapes> {
  const feeds = Object.fromEntries(
    model.inputs.map(({ role, dims: single, first }) => {
      const dims = items === 1 ? single : [items, ...single.slice(1)];
      return [role, { data: new Float32Array(count(dims)).fill(first), dims }];
    }),
  );
  const outputs = await run(model.name, feeds);
  return Object.fromEntries(Object.entries(outputs).map(([role, { dims }]) => [role, dims]));
}

/**
 * Runs a model with each number of items that its runs will have. The file alone does not tell whether it can: a
 * model exported with an open size may have a fixed one inside, and a large run may not fit on the device.
 */
async function largerRuns(
  model: ThreadModel,
  { provider, shapes: single }: FirstRun,
): Promise<Pick<FirstRun, 'alone' | 'sizes' | 'full'>> {
  const fixed = options.sizes ?? (provider === 'cpu' ? undefined : FIXED_SIZES);
  const done = [1];
  for (const items of fixed?.slice(1) ?? [2]) {
    try {
      const wrong = wrongShape(model, await firstRun(model, items), single, items);
      if (wrong !== undefined) return { alone: wrong };
      done.push(items);
    } catch (error) {
      const reason = describeError(error);
      const fault = deviceFaultOf(reason);
      if (fault === undefined) return { alone: reason };
      if (fault !== 'full') throw error;
      await reopen(model, provider, done);
      return { sizes: done, full: reason };
    }
  }
  return fixed ? { sizes: done } : {};
}

/** Opens a session anew, because only its end frees what a run took that did not fit, and warms it up again. */
async function reopen(model: ThreadModel, provider: Provider, sizes: readonly number[]): Promise<void> {
  await sessions.get(model.name)?.session.release();
  sessions.set(model.name, { session: await create(model, provider), model });
  for (const items of sizes) await firstRun(model, items);
}

function wrongShape(model: ThreadModel, shapes: Shapes, single: Shapes, items: number): string | undefined {
  for (const { role, name } of model.outputs) {
    const wanted = [items, ...(single[role] ?? []).slice(1)].join(', ');
    const found = (shapes[role] ?? []).join(', ');
    if (found !== wanted) return `output "${name}" is [${found}], not [${wanted}]`;
  }
  return undefined;
}

async function run(name: string, feeds: FloatTensors): Promise<FloatTensors> {
  const held = sessions.get(name);
  if (!held) throw new Error(`no session ${name}`);
  const { session, model } = held;
  const tensors: Record<string, Tensor> = {};
  for (const input of model.inputs) {
    const feed = feeds[input.role];
    if (!feed) throw new Error(`${name} was given no ${input.role}`);
    tensors[input.name] = toTensor(input, feed);
  }
  const names = model.outputs.map((output) => output.name);
  const results = await throughGate(() => session.run(tensors, names));
  return Object.fromEntries(
    model.outputs.map((output) => [output.role, fromTensor(results[output.name] as Tensor)]),
  );
}

function toTensor({ type }: ThreadTensor, { data, dims }: FloatTensor): Tensor {
  if (type === 'float16') return new Tensor('float16', halves(data), dims);
  if (type === 'int64') return new Tensor('int64', BigInt64Array.from(data, BigInt), dims);
  if (type === 'float64') return new Tensor('float64', new Float64Array(data), dims);
  return new Tensor('float32', data, dims);
}

function halves(data: Float32Array): Uint16Array {
  return new Uint16Array(new Float16Array(data).buffer);
}

function fromTensor(tensor: Tensor): FloatTensor {
  const { data, dims } = tensor;
  if (tensor.type === 'float16' && data instanceof Uint16Array) {
    return { data: new Float32Array(new Float16Array(data.buffer, data.byteOffset, data.length)), dims };
  }
  // This is a copy, because memory of the runtime cannot be transferred to another thread.
  return { data: new Float32Array(data as ArrayLike<number>), dims };
}

function count(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1);
}

function send(message: FromSession): void {
  const transfer =
    message.type === 'done' ? Object.values(message.outputs).map(({ data }) => data.buffer) : [];
  port?.postMessage(message, transfer);
}

const opened = open().catch((error: unknown) => send({ type: 'unusable', message: describeError(error) }));

port.on('message', async ({ id, model, feeds }: ToSession) => {
  await opened;
  try {
    send({ type: 'done', id, outputs: await run(model, feeds) });
  } catch (error) {
    send({ type: 'failed', id, message: describeError(error) });
  }
});
