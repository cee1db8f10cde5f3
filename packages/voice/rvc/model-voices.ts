import { describeError } from '@semblance/common/errors';
import { VOICE } from '@semblance/engine-onnx/contracts/rvc';
import { readIvfFlat } from '@semblance/engine-onnx/faiss-index';
import { type CheckedModel, ModelDirError, openModelDir } from '@semblance/engine-onnx/model-dir';
import type { FloatTensor, FloatTensors, Provider } from '@semblance/engine-onnx/sessions/protocol';
import { SessionPool } from '@semblance/engine-onnx/sessions/session-pool';
import { type OpenModel, openModel } from '@semblance/engine-onnx/stages/models';
import { blockTime, streamsCarried, warmBlock } from './block-time.ts';
import { BLOCK_MS, CONTEXT_MS } from './rvc-converter.ts';
import type { RunModel, RvcModels, VoiceIndex, VoiceModel } from './rvc-models.ts';

export interface ModelVoicesOptions {
  /** Directory of the owner's models and their manifest. */
  readonly modelDir: string;
  readonly providers: readonly Provider[];
  readonly devices: readonly number[];
  /** Threads of one run on the CPU. */
  readonly threads: number;
  /** Length of the sound that a run processes, in ms; default: the shortest. */
  readonly contextMs?: number;
  /** Receives messages for the owner. */
  readonly say: (line: string) => void;
  /** Called when the models can run no more, although nobody closed them. */
  readonly onEnd?: (reason: string) => void;
}

/** The owner's voice models, loaded and warm. They run in threads of their own. */
export interface ModelVoices {
  /** Names in the manifest. */
  readonly names: ReadonlySet<string>;
  /** Number of streams that the devices carry at once, of the slowest voice, as it was timed when it was opened. */
  readonly carries: number;
  /** Returns the models of the voice with this name. @throws RangeError for an unknown name */
  of(name: string): RvcModels;
  /**
   * Runs any of the models and returns its first output. The buffers of the inputs are transferred. @throws the
   * signal's reason
   */
  run(model: string, feeds: FloatTensors, signal: AbortSignal): Promise<FloatTensor>;
  close(): Promise<void>;
}

/**
 * @returns undefined when the directory has no voice model
 * @throws ModelDirError, SessionError, or the signal's reason
 */
export async function openModelVoices(
  options: ModelVoicesOptions,
  signal: AbortSignal,
): Promise<ModelVoices | undefined> {
  const { modelDir, say, contextMs = CONTEXT_MS, ...settings } = options;
  const { directory, models: all, faults } = await openModelDir(modelDir, signal);
  if (faults.length > 0) throw new ModelDirError(directory, faults);
  const models = all.filter(({ contract }) => contract.stage.startsWith('voice'));
  if (!models.some(({ contract }) => contract.stage === VOICE)) return undefined;
  const indexes = new Map<string, VoiceIndex>();
  for (const model of models) {
    const index = await indexOf(model);
    if (index) indexes.set(model.name, index);
    signal.throwIfAborted();
  }
  const { pool, runs, notes } = await SessionPool.open({ ...settings, models }, signal);
  for (const note of notes) say(note);
  for (const { model, provider } of runs) say(`model ${model} runs on ${provider}`);

  const open = models.map((model) => openModel(pool, model));
  const byName = new Map(open.map((each) => [each.model.name, each]));
  const tracker = open.find(({ model }) => model.contract.stage === 'voice-pitch');
  const voices = new Map(
    open
      .filter(({ model }) => model.contract.stage === VOICE)
      .map((voice): [string, RvcModels] => {
        const content = factsOf(contentFor(voice, open));
        const { name } = voice.model;
        const pitch = tracker && factsOf(tracker);
        return [name, { voice: factsOf(voice), content, pitch, index: indexes.get(name) }];
      }),
  );
  const run: ModelVoices['run'] = (name, feeds, ended) => {
    const model = byName.get(name);
    return model
      ? model.run(feeds, ended)
      : Promise.reject(new RangeError(`there is no model ${name} of voices`));
  };
  // On the CPU, all devices are the same one.
  const devices = runs.every(({ provider }) => provider === 'cpu') ? 1 : options.devices.length;
  const carries = await carried([...voices], { run, contextMs, devices, say, signal }).catch(
    async (error: unknown) => {
      await pool.close();
      throw error;
    },
  );
  return {
    names: new Set(voices.keys()),
    carries,
    of(name) {
      const found = voices.get(name);
      if (!found) throw new RangeError(`there is no model ${name} of a voice`);
      return found;
    },
    run,
    close: () => pool.close(),
  };
}

/** Times a block of each kind of voice, and warms up the others. @returns how many streams of the slowest are carried */
async function carried(
  voices: readonly (readonly [string, RvcModels])[],
  by: {
    readonly run: ModelVoices['run'];
    readonly contextMs: number;
    readonly devices: number;
    readonly say: (line: string) => void;
    readonly signal: AbortSignal;
  },
): Promise<number> {
  const times = new Map<string, number>();
  for (const [name, models] of voices) {
    const run: RunModel = (model, feeds) => by.run(model, feeds, by.signal);
    // Voices with the same content and rate are the same network with other weights.
    const kind = `${models.content.name} ${models.voice.options.sample_rate}`;
    // As many at once as there are devices, so that each has one.
    await Promise.all(Array.from({ length: by.devices }, () => warmBlock(models, run, by.contextMs)));
    if (times.has(kind)) continue;
    const ms = await blockTime(models, run, by.contextMs);
    by.say(`voice ${name}: ${BLOCK_MS} ms of sound take ${ms.toFixed(1)} ms`);
    times.set(kind, ms);
  }
  return streamsCarried(Math.max(...times.values()), by.devices);
}

async function indexOf({ name, index }: CheckedModel): Promise<VoiceIndex | undefined> {
  if (!index) return undefined;
  try {
    return { id: index.sha256, ...(await readIvfFlat(index.path)) };
  } catch (error) {
    throw new Error(`the index of ${name} cannot be read: ${describeError(error)}`, { cause: error });
  }
}

function factsOf({ model: { name, inputs, options } }: OpenModel): VoiceModel {
  return { name, inputs: inputs.map(({ role, dims }) => ({ role, dims })), options };
}

/** The contracts ensure that the encoder is present. */
function contentFor({ model }: OpenModel, all: readonly OpenModel[]): OpenModel {
  const found = all.find((other) => model.contract.needs?.includes(other.model.contract.name));
  if (!found) throw new Error(`${model.name} has no content encoder`);
  return found;
}
