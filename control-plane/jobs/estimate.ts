import type { Micros } from '@semblance/common/money';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { capFault } from '../billing/caps.ts';
import type { Sql } from '../storage/sql.ts';
import type { Submission } from './submission.ts';
import { checkBySettings, checkSubmission, refusal } from './submit.ts';

export interface Estimate {
  readonly holdMicros: Micros;
  readonly rateMicros: Micros;
  readonly minimumMicros: Micros;
  readonly unit: string;
  /** The balance, less the blocks of open sessions, covers the hold at this moment. */
  readonly balanceSufficient: boolean;
  /** What a submit would be told about a cap that does not leave the hold; undefined: it would not. */
  readonly capRefusal: string | undefined;
}

type Quote = {
  outcome: string;
  detail: string | null;
  hold_micros: bigint;
  rate_micros: bigint;
  minimum_micros: bigint;
  unit: string;
  available_micros: bigint;
  cap: string | null;
  cap_room: bigint | null;
};

/**
 * Returns what a submit would hold at this moment. It is refused as the submit would be for its content; a low
 * balance, caps and ceilings are no refusal. Holds and creates nothing.
 * @throws ApiError invalid_input, capability_unavailable
 */
export async function estimate(
  sql: Sql,
  submission: Omit<Submission, 'idempotencyKey'>,
  webhooks: boolean,
  agents: readonly GpuAgent[] = [],
): Promise<Estimate> {
  const { inputs } = checkSubmission(submission, webhooks);
  await checkBySettings(sql, { ...submission, idempotencyKey: undefined }, agents);
  const { accountId, keyId = null, capability, parameters } = submission;
  const [quote] = await sql<Quote[]>`
    select q.*, to_json(c)::text as cap, cap_room(c) as cap_room
    from quote_job(${accountId}, ${capability}, ${sql.json(inputs)}::jsonb, ${sql.json(parameters)}::jsonb) q,
         tightest_cap(${accountId}, ${keyId}) c`;
  if (!quote) throw new Error('an estimate has no outcome');
  if (quote.outcome !== 'quoted') throw refusal({ ...quote, amount_micros: null }, submission);
  return {
    holdMicros: quote.hold_micros,
    rateMicros: quote.rate_micros,
    minimumMicros: quote.minimum_micros,
    unit: quote.unit,
    balanceSufficient: quote.available_micros >= quote.hold_micros,
    capRefusal: capFault(quote, 'This job needs a hold'),
  };
}
