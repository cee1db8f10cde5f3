import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import { type ModelVoices, openModelVoices } from '@semblance/voice/rvc/model-voices';
import { RvcConverter } from '@semblance/voice/rvc/rvc-converter';
import { type GivenModel, ModelDirRig } from '../engine-onnx/model-dir-rig.ts';
import { joined } from './sounds.ts';

const NEVER = new AbortController().signal;
/** The voice that models speak with, unless a test changes it. */
export const alto = (await loadVoices()).get('calm-alto') as Voice;

/** Voices by models on the CPU, and streams that they convert. */
export class ModelVoicesRig {
  /** Messages for the owner. */
  readonly said: string[] = [];
  readonly directories = new ModelDirRig();
  readonly #opened: ModelVoices[] = [];

  async open(...given: GivenModel[]): Promise<ModelVoices> {
    const models = await openModelVoices(
      {
        modelDir: await this.directories.make(given),
        providers: ['cpu'],
        devices: [0],
        threads: 1,
        say: (line) => this.said.push(line),
      },
      AbortSignal.timeout(60_000),
    );
    if (!models) throw new Error('no model of a voice');
    this.#opened.push(models);
    return models;
  }

  /** Closes all models; directories stay. */
  async closeModels(): Promise<void> {
    for (const models of this.#opened.splice(0)) await models.close();
  }
}

/** Returns a converter to the alto, or to what is changed of her, by a model. */
export function converterBy(
  models: ModelVoices,
  model: string,
  {
    sampleRate = 48_000,
    signal = NEVER,
    ...voice
  }: { sampleRate?: number; signal?: AbortSignal } & Partial<Voice> = {},
): RvcConverter {
  return new RvcConverter({
    sampleRate,
    voice: { ...alto, ...voice },
    models: models.of(model),
    run: (name, feeds) => models.run(name, feeds, signal),
  });
}

/**
 * Converts a whole sound and returns it with the rest that the converter still held. @throws Error when a chunk comes
 * back with another length
 */
export async function convertAll(converter: RvcConverter, sound: Int16Array, cut = 960): Promise<Int16Array> {
  const parts: Int16Array[] = [];
  for (let at = 0; at < sound.length; at += cut) {
    const chunk = sound.subarray(at, at + cut);
    const part = await converter.push(chunk);
    if (part.length !== chunk.length) throw new Error(`${part.length} samples for ${chunk.length}`);
    parts.push(part);
  }
  return joined([...parts, await converter.flush()]);
}
