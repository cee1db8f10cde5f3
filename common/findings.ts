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
import { MAX_PEOPLE, mappedField } from '@semblance/engine-api/people';
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
    mapped: said.mapped.slice(0, MAX_PEOPLE).map(({ id, input, frames }) => ({
      id: clip(id, 64),
      ...(input ? { input: clip(input, 32) } : {}),
      frames: atLeast0(frames),
    })),
  };
}

/** Returns findings in the words of callers, who know an input by its field. */
export function inFields(
  { faces, hints, models, options, mapped }: Findings,
  capability: Capability,
): Findings {
  const fieldOf = (role = '') => mappedField(role) ?? inputsOf(capability)[role]?.field;
  return {
    ...(faces && { faces }),
    hints: hints.map(({ code, message, input }) => {
      const field = fieldOf(input);
      return { code, message, ...(field === undefined ? {} : { input: field }) };
    }),
    models,
    options,
    mapped: mapped.map(({ id, input, frames }) => {
      const field = fieldOf(input);
      return { id, frames, ...(field === undefined ? {} : { input: field }) };
    }),
  };
}
