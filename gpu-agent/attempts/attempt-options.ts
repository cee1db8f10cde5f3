import { openOptions, type UsedOptions, usedOptions } from '@semblance/common/owner-options';
import { RenderError } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import { type EngineOption, listOptions, optionFaults } from '@semblance/engine-api/option';
import type { ChosenEngine } from '../engines/engine-set.ts';
import type { AttemptWork } from './start-request.ts';

/**
 * Returns the options of an attempt: what the owner set, and in its place what the caller gave. The submit was checked
 * against what all agents let through; agents may have changed since, and a RenderJob may be made by hand.
 * @throws RenderError `processing_failed` for an option that the owner does not let callers give, or out of its bounds
 */
export function attemptOptions(
  { engineOptions, capability }: Pick<AttemptWork, 'engineOptions' | 'capability'>,
  { offer, owner }: Pick<ChosenEngine, 'offer' | 'owner'>,
): UsedOptions {
  const open = openOptions(offer.options, owner);
  const [fault] = optionFaults(open, engineOptions);
  if (fault) {
    const known = open.length > 0 ? `${capability} takes ${listOptions(open)}` : `${capability} takes none`;
    throw new RenderError('processing_failed', `The engine option ${fault.name} ${fault.fault}: ${known}.`);
  }
  return usedOptions(offer.options, owner, engineOptions);
}

/** Returns the options that an output may state to everybody: not texts, in which people write what they like. */
export function statedOptions(
  options: readonly EngineOption[] = [],
  texts: Readonly<Record<string, string>>,
): Record<string, string> {
  const stated = options.flatMap(({ name, type }) => {
    const text = texts[name];
    return type === 'text' || text === undefined ? [] : [[name, text] as const];
  });
  return Object.fromEntries(stated);
}

/** Returns findings with the options that a render was given. */
export function withOptions(
  findings: Findings | undefined,
  options: Readonly<Record<string, string>>,
): Findings | undefined {
  if (Object.keys(options).length === 0) return findings;
  return { hints: [], ...findings, options };
}

/**
 * Returns work as content checks see it: what a caller writes into an option, such as a prompt, is checked like a
 * parameter.
 */
export function checkedWork(work: AttemptWork): AttemptWork {
  const texts = Object.entries(work.engineOptions).map(([name, value]) => [`engine_options.${name}`, value]);
  return { ...work, parameters: { ...work.parameters, ...Object.fromEntries(texts) } };
}
