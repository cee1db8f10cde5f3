import { RenderError, type RenderStage } from '@semblance/engine-api/engine';
import { MAX_LICENCE_LENGTH, type UsedModel } from '@semblance/engine-api/findings';
import type { Contract, Stage } from '../contracts/contract.ts';
import type { CheckedModel } from '../model-dir.ts';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { clockMs, type Span, Spans } from './spans.ts';

/** An open model: its contract, its options, and how to run it. Runs that return no numbers are refused. */
export interface OpenModel {
  readonly model: CheckedModel;
  readonly traits: Contract['traits'];
  readonly options: Readonly<Record<string, number>>;
  /** The options that are words. */
  readonly choices: Readonly<Record<string, string>>;
  /** Returns the first output. */
  run(feeds: FloatTensors, signal: AbortSignal): Promise<FloatTensor>;
  /** Returns all outputs by role. */
  runAll(feeds: FloatTensors, signal: AbortSignal): Promise<FloatTensors>;
}

/** Runs models by name; see `SessionPool.run`. */
export type RunsModels = Pick<SessionPool, 'run'>;

export function openModel(pool: RunsModels, model: CheckedModel): OpenModel {
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
    choices: model.choices,
    runAll,
    run: async (feeds, signal) => (await runAll(feeds, signal))[first] as FloatTensor,
  };
}

/** Returns the error for a run with values that are not finite, which would make black areas or holes. */
export function noNumbers({ name }: CheckedModel): RenderError {
  return new RenderError('processing_failed', `The model ${name} gave values that are not finite numbers.`);
}

function allFinite(values: ArrayLike<number>): boolean {
  // This is a loop, because `every` takes ten times as long and pictures are large.
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) return false;
  return true;
}

export class Models {
  readonly #byStage = new Map<Stage, readonly OpenModel[]>();

  constructor(pool: RunsModels, models: readonly CheckedModel[]) {
    for (const model of models) {
      const { stage } = model.contract;
      this.#byStage.set(stage, [...this.all(stage), openModel(pool, model)]);
    }
  }

  /**
   * Returns these models with others in their place.
   * @param change returns the other one; undefined: none
   */
  changed(change: (model: OpenModel, stage: Stage) => OpenModel | undefined): Models {
    const models = new Models({ run: () => Promise.reject(new Error('no model of its own')) }, []);
    for (const [stage, all] of this.#byStage)
      models.#byStage.set(
        stage,
        all.flatMap((model) => change(model, stage) ?? []),
      );
    return models;
  }

  /** Returns the model for a stage, the first if there are several. */
  get(stage: Stage): OpenModel | undefined {
    return this.all(stage)[0];
  }

  /** Returns all models for a stage, in the order of the manifest. */
  all(stage: Stage): readonly OpenModel[] {
    return this.#byStage.get(stage) ?? [];
  }

  /**
   * Returns the first model for a stage whose options `min_face` and `max_face` fit a face.
   * @param width of the face, in pixels
   */
  fitting(stage: Stage, width: number): OpenModel | undefined {
    return this.all(stage).find(
      ({ options: { min_face: least = 0, max_face: most = Infinity } }) => width >= least && width <= most,
    );
  }

  /** @throws Error for a stage whose presence was checked before */
  need(stage: Stage): OpenModel {
    const model = this.get(stage);
    if (!model) throw new Error(`there is no model for ${stage}`);
    return model;
  }

  /** Returns the model for a stage that another model needs. @throws Error when its presence was not checked before */
  needed(stage: Stage, { name, contract: { needs = [] } }: CheckedModel): OpenModel {
    const model = this.all(stage).find(({ model: { contract } }) => needs.includes(contract.name));
    if (!model) throw new Error(`there is no model for ${stage} that ${name} needs`);
    return model;
  }
}

/** What a {@link StageLog} in another thread recorded. */
export interface StageReport {
  readonly stages: readonly {
    readonly name: string;
    readonly engine: string | undefined;
    readonly spans: readonly Span[];
  }[];
  readonly makers: readonly (readonly [string, readonly string[]])[];
  readonly models: readonly UsedModel[];
}

interface StageTime {
  readonly engine: string | undefined;
  /** When at least one frame was in the stage. */
  readonly spans: Spans;
}

/** Records how a job was made, for the job's record: the time by stage, and the engine and model of each. */
export class StageLog {
  readonly #times = new Map<string, StageTime>();
  readonly #makers = new Map<string, Set<string>>();
  readonly #used = new Map<string, UsedModel>();

  async onnx<T>(name: string, model: OpenModel, work: () => Promise<T>): Promise<T> {
    this.uses(name, model);
    return this.#time(name, undefined, work);
  }

  /** Notes that what a model gave before is used. */
  uses(name: string, { model }: OpenModel): void {
    const { name: called, sha256, licence } = model;
    this.#made(name, `onnx ${called}`);
    this.#used.set(called, { name: called, sha256, licence: licence.slice(0, MAX_LICENCE_LENGTH) });
  }

  /** Runs a stage in `builtin`, because the directory has no model for it. */
  async builtin<T>(name: string, how: string, work: () => T | Promise<T>): Promise<T> {
    this.#made(name, `builtin ${how}`);
    return this.#time(name, 'builtin', work);
  }

  /** Runs work that belongs to no model. */
  async own<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    return this.#time(name, undefined, work);
  }

  /** Notes that a swapper gave faces its own identity, not that of the job's face. */
  identity({ traits, model }: OpenModel): void {
    if (traits.identity === 'own') this.#made('identity', `onnx ${model.name}`);
  }

  get stages(): RenderStage[] {
    return [...this.#times].map(([name, { engine, spans }]) => ({
      name,
      milliseconds: spans.total,
      ...(engine ? { engine } : {}),
    }));
  }

  /** Stage → its maker, such as `swapper: onnx inswapper_128`, or its makers. */
  get makers(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#makers].map(([name, makers]) => [name, [...makers].join(', ')]));
  }

  get report(): StageReport {
    const makers = [...this.#makers].map(([name, of]) => [name, [...of]] as const);
    const stages = [...this.#times].map(([name, { engine, spans }]) => ({ name, engine, spans: spans.kept }));
    return { stages, makers, models: this.models };
  }

  /** Adds what another thread recorded for one frame. Time in which several threads were in a stage counts once. */
  add({ stages, makers, models }: StageReport): void {
    for (const { name, engine, spans } of stages) {
      const entry = this.#entryOf(name, engine);
      for (const span of spans) entry.spans.add(span);
    }
    for (const [name, of] of makers) for (const maker of of) this.#made(name, maker);
    for (const model of models) this.#used.set(model.name, model);
  }

  #made(name: string, maker: string): void {
    this.#makers.set(name, (this.#makers.get(name) ?? new Set()).add(maker));
  }

  /** The owner's models that were run. */
  get models(): UsedModel[] {
    return [...this.#used.values()];
  }

  /** Adds the time in which at least one frame is in the stage, because several frames are processed at once. */
  async #time<T>(name: string, engine: string | undefined, work: () => T | Promise<T>): Promise<T> {
    const { spans } = this.#entryOf(name, engine);
    const from = clockMs();
    try {
      return await work();
    } finally {
      spans.add([from, clockMs()]);
    }
  }

  #entryOf(name: string, engine: string | undefined): StageTime {
    const entry = this.#times.get(name) ?? { engine, spans: new Spans() };
    this.#times.set(name, entry);
    return entry;
  }
}
