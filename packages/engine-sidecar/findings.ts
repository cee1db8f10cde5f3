import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import {
  FINDING_CODE,
  type Findings,
  type HintCode,
  type LeftReason,
  MAX_FINDINGS,
  MAX_HINT_LENGTH,
  MAX_LICENCE_LENGTH,
  MAX_MODEL_NAME,
  MAX_MODELS,
  SHA256_HEX,
  type UsedModel,
} from '@semblance/engine-api/findings';
import type { Findings as FindingsMessage } from '@semblance/proto/semblance/engine/v1/findings';
import { broken, quoted } from './contract-error.ts';

/** @throws ContractError */
export function checkedFindings(
  capability: Capability,
  said: FindingsMessage | undefined,
): Findings | undefined {
  if (!said) return undefined;
  // Options that it states are left out: the agent knows what it gave.
  const { faces, hints, models } = said;
  if (hints.length > MAX_FINDINGS) broken(`at most ${MAX_FINDINGS} hints`);
  return {
    ...(faces && { faces: checkedFaces(faces) }),
    hints: hints.map(({ code, message, input }) => {
      if (message.trim() === '' || message.length > MAX_HINT_LENGTH)
        broken(`the message of a hint has 1 to ${MAX_HINT_LENGTH} characters`);
      if (input !== undefined && !Object.hasOwn(inputsOf(capability), input))
        broken(`a hint is about ${quoted(input)}, which is no input of ${capability}`);
      return { code: checkedCode<HintCode>(code), message, ...(input === undefined ? {} : { input }) };
    }),
    ...(models.length > 0 && { models: checkedModels(models) }),
  };
}

function checkedModels(models: FindingsMessage['models']): readonly UsedModel[] {
  if (models.length > MAX_MODELS) broken(`at most ${MAX_MODELS} models`);
  for (const { name, sha256, licence } of models) {
    if (name.trim() === '' || name.length > MAX_MODEL_NAME)
      broken(`the name of a model has 1 to ${MAX_MODEL_NAME} characters`);
    if (!SHA256_HEX.test(sha256))
      broken(`the sha256 of ${quoted(name)} is not 64 lower-case hexadecimal digits`);
    if (licence.trim() === '' || licence.length > MAX_LICENCE_LENGTH)
      broken(`the licence of ${quoted(name)} has 1 to ${MAX_LICENCE_LENGTH} characters`);
  }
  return models;
}

function checkedFaces({ found, changed, left }: NonNullable<FindingsMessage['faces']>) {
  if (left.length > MAX_FINDINGS) broken(`at most ${MAX_FINDINGS} reasons for faces left alone`);
  if ([found, changed, ...left.map(({ count }) => count)].some((count) => count < 0))
    broken('a number of faces is below 0');
  const others = left.reduce((sum, { count }) => sum + count, 0);
  if (found !== changed + others)
    broken(`it found ${found} faces, but changed ${changed} and left ${others} alone`);
  return {
    found,
    changed,
    left: left.map(({ reason, count }) => ({ reason: checkedCode<LeftReason>(reason), count })),
  };
}

/** Returns a code that has the form of one: an engine may know more codes than this agent. */
function checkedCode<Code extends string>(code: string): Code {
  if (!FINDING_CODE.test(code)) broken(`${quoted(code)} has not the form of a code of a finding`);
  return code as Code;
}
