import { RenderError, type RenderStage } from '@semblance/engine-api/engine';
import type { Contract, Stage } from '../contracts/contract.ts';
import type { CheckedModel } from '../model-dir.ts';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import type { SessionPool } from '../sessions/session-pool.ts';

/** A model that is open: its contract, its options, and how to run it. Runs that give no numbers are refused. */
export interface OpenModel {
  readonly model: CheckedModel;
  readonly traits: Contract['traits'];
  readonly options: Readonly<Record<string, number>>;
  /** The first output. */
  run(feeds: FloatTensors, signal: AbortSignal): Promise<FloatTensor>;
  /** All outputs by role. */
  runAll(feeds: FloatTensors, signal: AbortSignal): Promise<FloatTensors>;
}

export function openModel(pool: SessionPool, model: CheckedModel): OpenModel {
  const runAll: OpenModel['runAll'] = async (feeds, signal) => {
    const outputs = await pool.run(model.name, feeds, signal);
    for (const { role, partly } of model.outputs)
      if (!partly && !allFinite(outputs[role]?.data ?? [])) throw noNumbers(model);
    return outputs;
  };
  const first = model.outputs[0]?.role ?? '';
  return {
    model,
    traits: model.contract.traits,
    options: model.options,
    runAll,
    run: async (feeds, signal) => (await runAll(feeds, signal))[first] as FloatTensor,
  };
}

/** Returns what a run is refused with whose values cannot be used: what was made of them would be black, or a hole. */
export function noNumbers({ name }: CheckedModel): RenderError {
  return new RenderError('processing_failed', `The model ${name} gave values that are not finite numbers.`);
}

function allFinite(values: ArrayLike<number>): boolean {
  // A loop: `every` takes ten times as long, and pictures are large.
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) return false;
  return true;
}

/** The models of a directory by what they do. */
export class Models {
  readonly #byStage = new Map<Stage, OpenModel>();

  constructor(pool: SessionPool, models: readonly CheckedModel[]) {
    for (const model of models) this.#byStage.set(model.contract.stage, openModel(pool, model));
  }

  get(stage: Stage): OpenModel | undefined {
    return this.#byStage.get(stage);
  }

  /** @throws Error for a stage that was checked to be there */
  need(stage: Stage): OpenModel {
    const model = this.get(stage);
    if (!model) throw new Error(`there is no model for ${stage}`);
    return model;
  }
}

interface StageTime {
  readonly engine: string | undefined;
  milliseconds: number;
  /** How many are at it now, and since when. */
  active: number;
  since: number;
}

/** Holds what a job record says of how it was made: time by stage, and which engine and model made it. */
export class StageLog {
  readonly #times = new Map<string, StageTime>();
  readonly #makers = new Map<string, string>();

  /** Runs a stage of this engine by a model. */
  async onnx<T>(name: string, model: OpenModel, work: () => Promise<T>): Promise<T> {
    this.#makers.set(name, `onnx ${model.model.name}`);
    return this.#time(name, undefined, work);
  }

  /** Runs a stage that `builtin` makes because the directory has no model for it. */
  async builtin<T>(name: string, how: string, work: () => T | Promise<T>): Promise<T> {
    this.#makers.set(name, `builtin ${how}`);
    return this.#time(name, 'builtin', work);
  }

  /** Runs what belongs to no model. */
  async own<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    return this.#time(name, undefined, work);
  }

  get stages(): RenderStage[] {
    return [...this.#times].map(([key, { engine, milliseconds }]) => ({
      name: key,
      milliseconds,
      ...(engine ? { engine } : {}),
    }));
  }

  /** Stage → who made it, such as `swapper: onnx inswapper_128`. */
  get makers(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#makers);
  }

  /** Frames are worked on several at once: the time of a stage is that during which any of them was in it. */
  async #time<T>(name: string, engine: string | undefined, work: () => T | Promise<T>): Promise<T> {
    const entry = this.#times.get(name) ?? { engine, milliseconds: 0, active: 0, since: 0 };
    this.#times.set(name, entry);
    if (entry.active++ === 0) entry.since = performance.now();
    try {
      return await work();
    } finally {
      if (--entry.active === 0) entry.milliseconds += performance.now() - entry.since;
    }
  }
}
