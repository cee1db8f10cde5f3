import { ApiError } from '@semblance/common/errors';
import {
  type EngineOption,
  listOptions,
  MAX_GIVEN_OPTIONS,
  MAX_OPTION_TEXT,
  OPTION_NAME,
  optionFaults,
} from '@semblance/engine-api/option';
import { isStorable, type Sql } from '../storage/sql.ts';
import type { Submission } from './submission.ts';

/** Checks the form of the options of a submit. @throws ApiError invalid_input */
export function checkOptionsForm(engineOptions: Submission['engineOptions']): void {
  const given = Object.entries(engineOptions);
  if (given.length > MAX_GIVEN_OPTIONS)
    throw new ApiError('invalid_input', `engine_options has at most ${MAX_GIVEN_OPTIONS} options.`);
  for (const [name, value] of given)
    if (!OPTION_NAME.test(name) || value.length > MAX_OPTION_TEXT || !isStorable(value))
      throw new ApiError('invalid_input', 'engine_options has a name or a value that cannot be used.');
}

/**
 * Checks the options of a submit against those that all agents of its capability let callers give, as last seen (see
 * `createEnginesSeen`). A repeat is not checked again: it finds its job, whatever agents let through by now.
 * @throws ApiError invalid_input naming the option and what is valid
 */
export async function checkOptions(
  sql: Sql,
  {
    accountId,
    capability,
    engineOptions,
    idempotencyKey,
  }: Pick<Submission, 'accountId' | 'capability' | 'engineOptions' | 'idempotencyKey'>,
): Promise<void> {
  if (Object.keys(engineOptions).length === 0) return;
  const [row] = await sql<{ open: readonly EngineOption[] | null; repeated: boolean }[]>`
    select c.engine_options as open,
           exists (select 1 from idempotency_keys i where i.account_id = ${accountId} and i.key = ${idempotencyKey ?? ''}) as repeated
      from capabilities c where c.name = ${capability}`;
  if (row?.repeated) return;
  const open = row?.open ?? [];
  const faults = optionFaults(open, engineOptions).map(
    ({ name, fault }) => `engine_options.${name} ${fault}`,
  );
  if (faults.length === 0) return;
  const valid = open.length > 0 ? `The options of this capability are ${listOptions(open)}.` : NONE;
  throw new ApiError('invalid_input', `${faults.join('; ')}. ${valid}`);
}

const NONE = 'This capability has no options on this installation: leave `engine_options` out.';
