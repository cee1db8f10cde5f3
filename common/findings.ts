import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import {
  FINDING_CODE,
  MAX_FINDINGS,
  MAX_HINT_LENGTH,
  MAX_LICENCE_LENGTH,
  MAX_MODEL_NAME,
  MAX_MODELS,
  SHA256_HEX,
} from '@semblance/engine-api/findings';
import { MAX_OPTION_TEXT, MAX_OPTIONS, OPTION_NAME } from '@semblance/engine-api/option';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { clip } from './plain-text.ts';

/** Returns an agent's findings, cut to what the record of a job takes. */
export function cutFindings(said: Findings): Findings {
  const known = <Item>(items: readonly Item[], code: (item: Item) => string) =>
    items.filter((item) => FINDING_CODE.test(code(item))).slice(0, MAX_FINDINGS);
  const atLeast0 = (value: number) => Math.max(0, value);
  const { faces } = said;
  return {
    ...(faces && {
      faces: {
        found: atLeast0(faces.found),
        changed: atLeast0(faces.changed),
        left: known(faces.left, ({ reason }) => reason).map(({ reason, count }) => ({
          reason,
          count: atLeast0(count),
        })),
      },
    }),
    hints: known(said.hints, ({ code }) => code).map(({ code, message, input }) => ({
      code,
      message: clip(message, MAX_HINT_LENGTH),
      ...(input ? { input: clip(input, 32) } : {}),
    })),
    models: said.models
      .filter(({ sha256 }) => SHA256_HEX.test(sha256))
      .slice(0, MAX_MODELS)
      .map(({ name, sha256, licence }) => ({
        name: clip(name, MAX_MODEL_NAME),
        sha256,
        licence: clip(licence, MAX_LICENCE_LENGTH),
      })),
    options: Object.fromEntries(
      Object.entries(said.options)
        .filter(([name]) => OPTION_NAME.test(name))
        .slice(0, MAX_OPTIONS)
        .map(([name, value]) => [name, clip(value, MAX_OPTION_TEXT)]),
    ),
  };
}

/** Returns findings in the words of callers, who know an input by its field. */
export function inFields({ faces, hints, models, options }: Findings, capability: Capability): Findings {
  const roles = inputsOf(capability);
  return {
    ...(faces && { faces }),
    hints: hints.map(({ code, message, input = '' }) => {
      const field = roles[input]?.field;
      return { code, message, ...(field === undefined ? {} : { input: field }) };
    }),
    models,
    options,
  };
}
