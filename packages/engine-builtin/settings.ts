import type { EngineOption } from '@semblance/engine-api/option';
import { z } from 'zod';

const likeness = z.coerce.number().min(0, 'must be from 0 to 1').max(1, 'must be from 0 to 1');

/** Default of {@link builtinShape}: folds and bags of the source are seen, and its skin is not. */
export const LIKENESS = 0.6;

/** Environment variables of this engine. */
export const builtinShape = {
  /**
   * How much of the source beyond its features a swap takes, 0–1: at 0 the skin is wholly the target's, at 1 folds,
   * bags and marks of the source are as strong as the target's skin allows.
   */
  SEMBLANCE_SWAP_LIKENESS: likeness.default(LIKENESS),
};

const settings = z.object({ likeness: likeness.default(LIKENESS) });

/** The settings as everything in this engine passes them on. */
export type BuiltinSettings = z.output<typeof settings>;

/** Options of a render that swaps faces; each stands for the setting of its name. */
export function swapOptions({ likeness }: BuiltinSettings): readonly EngineOption[] {
  const description =
    'How much of the source beyond its features the swap takes: at 0 the skin is wholly the target’s.';
  return [
    { name: 'likeness', type: 'number', minimum: 0, maximum: 1, default: String(likeness), description },
  ];
}

/** Parses the engine's settings as its process receives them. @throws Error naming the setting */
export function parseBuiltinSettings(given: Readonly<Record<string, string>> = {}): BuiltinSettings {
  const result = settings.safeParse(given);
  if (result.success) return result.data;
  throw new Error(result.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '));
}
