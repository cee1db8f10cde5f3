import { ApiError } from '@semblance/common/errors';
import type { Sql } from '../storage/sql.ts';
import type { CallbackHosts } from '../webhooks/callback-hosts.ts';
import type { Submission } from './submission.ts';
import { checkSubmission } from './submit.ts';

/** Refuses submits whose callback no webhook would reach, before anything is held. */
export interface CallbackCheck {
  /** Looks at the text of the callback alone. @throws ApiError invalid_input */
  text(submission: Submission): Promise<void>;
  /** Looks at the addresses of its host, too, which may take as long as a lookup. @throws ApiError invalid_input */
  resolved(submission: Submission): Promise<void>;
}

export function createCallbackCheck(sql: Sql, hosts: CallbackHosts): CallbackCheck {
  const checked =
    (faultOf: (callback: string, accountId: string) => string | undefined | Promise<string | undefined>) =>
    async (submission: Submission): Promise<void> => {
      if (submission.callbackUrl === undefined) return;
      const { callback } = checkSubmission(submission, true);
      const fault = callback === null ? undefined : await faultOf(callback, submission.accountId);
      // A retry gets the job of its first submit, wherever the name has moved since.
      if (fault === undefined || (await wasUsed(sql, submission))) return;
      throw new ApiError('invalid_input', `\`callback_url\` ${fault}.`);
    };
  return { text: checked((callback) => hosts.faultOf(callback)), resolved: checked(hosts.resolvedFaultOf) };
}

async function wasUsed(sql: Sql, { accountId, idempotencyKey }: Submission): Promise<boolean> {
  if (idempotencyKey === undefined) return false;
  const used = await sql`
    select 1 from idempotency_keys where account_id = ${accountId} and key = ${idempotencyKey}`;
  return used.length > 0;
}
