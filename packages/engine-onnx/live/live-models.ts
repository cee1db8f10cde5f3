import type { Stage } from '../contracts/contract.ts';
import { type CheckedModel, ModelDirError, openModelDir } from '../model-dir.ts';
import { PoolShare } from '../sessions/pooled-models.ts';
import type { Provider } from '../sessions/protocol.ts';
import { SessionPool } from '../sessions/session-pool.ts';

/** Stages without which no model swaps a face. */
const NEEDED: readonly Stage[] = ['swapper', 'recogniser', 'converter'];
/** Stages that cost time in each picture, and are used where the owner asks for them. */
export const OPTIONAL_LIVE_STAGES = ['enhancer', 'occlusion', 'parser'] as const;
export type OptionalLiveStage = (typeof OPTIONAL_LIVE_STAGES)[number];
const EXPRESSION: readonly Stage[] = [
  'portrait-features',
  'portrait-motion',
  'portrait-generator',
  'portrait-stitcher',
];

export interface LiveModelsOptions {
  /** Directory of the owner's models and their manifest. */
  readonly modelDir: string;
  readonly providers: readonly Provider[];
  readonly devices: readonly number[];
  /** Threads of one run on the CPU. */
  readonly threads: number;
  readonly stages: readonly OptionalLiveStage[];
  /** Receives messages for the owner. */
  readonly say: (line: string) => void;
  /** Called when the models can run no more, although nobody closed them. */
  readonly onEnd: (reason: string) => void;
}

/** The owner's models for live swaps, loaded and warm, shared by the threads of all streams. */
export interface LiveModels {
  /** Entry file of a thread that swaps with them. */
  readonly entry: URL;
  /** Returns what one more thread needs. */
  threadData: PoolShare['threadData'];
  close(): Promise<void>;
}

/**
 * @returns undefined when the directory has no swapper
 * @throws ModelDirError, SessionError, or the signal's reason
 */
export async function openLiveModels(
  options: LiveModelsOptions,
  signal: AbortSignal,
): Promise<LiveModels | undefined> {
  const { modelDir, stages, say, ...settings } = options;
  const { directory, models: all, order, faults } = await openModelDir(modelDir, signal);
  if (faults.length > 0) throw new ModelDirError(directory, faults);
  const models = modelsFor(all, stages);
  if (!models.some(({ contract }) => contract.stage === 'swapper')) return undefined;
  const { pool, runs, notes } = await SessionPool.open({ ...settings, models }, signal);
  for (const note of notes) say(note);
  for (const { model, provider } of runs) say(`model ${model} runs on ${provider}`);
  const share = new PoolShare(pool, models, order);
  return {
    entry: new URL('./model-thread.ts', import.meta.url),
    threadData: () => share.threadData(),
    async close() {
      share.close();
      await pool.close();
    },
  };
}

/** Returns the models of the stages that are used, also those that the options of a swapper ask for. */
function modelsFor(
  all: readonly CheckedModel[],
  wanted: readonly OptionalLiveStage[],
): readonly CheckedModel[] {
  const swappers = all.filter(({ contract }) => contract.stage === 'swapper');
  const used = new Set<Stage>([...NEEDED, ...wanted]);
  if (swappers.some(({ choices }) => choices.mask === 'parser')) used.add('parser');
  if (swappers.some(({ options }) => (options.expression ?? 0) > 0))
    for (const stage of EXPRESSION) used.add(stage);
  return all.filter(({ contract }) => used.has(contract.stage));
}
