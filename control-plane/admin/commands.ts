import { CAPABILITY_NAMES } from '#common/capabilities.ts';
import { microsToUsd } from '#common/money.ts';
import type { AdminCalls } from './connection.ts';
import { RECORD_COMMANDS } from './record-commands.ts';
import { SESSION_COMMANDS } from './session-commands.ts';
import { type CommandSpec, type FlagSpec, type Flags, usdFlag, wholeFlag } from './usage.ts';
import { USAGE_COMMANDS } from './usage-commands.ts';
import { VOICE_COMMANDS } from './voice-commands.ts';

export interface Command extends CommandSpec {
  /** @returns the answer, as `--json` prints it */
  readonly run: (
    flags: Flags,
    calls: AdminCalls,
  ) => Promise<Record<string, unknown> | Record<string, unknown>[]>;
}

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };
const key: FlagSpec = { name: 'key', value: 'ID', required: true, help: 'the id of the key (key-…)' };

const capability = (name: string): FlagSpec => ({
  name,
  value: 'C',
  required: true,
  help: `its path segment: ${CAPABILITY_NAMES.join(', ')}`,
});
const optional = (name: string, value: unknown) => (value === undefined ? {} : { [name]: value });

/** What the service owner can do, by noun and verb. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'account create',
    help: 'Makes an account with one API key, which is shown this once.',
    flags: [
      { name: 'name', value: 'N', required: true, help: 'what to call it, 1 to 200 characters' },
      { name: 'balance-usd', value: 'X', required: false, help: 'a first top-up, at most six decimals' },
    ],
    async run(flags, calls) {
      const answer = await calls.invoke('createAccount', {
        name: flags.get('name'),
        balanceMicros: (usdFlag(flags, 'balance-usd') ?? 0n).toString(),
      });
      return { account_id: answer.accountId, key_id: answer.keyId, api_key: answer.apiKey };
    },
  },
  {
    name: 'account topup',
    help: 'Books money that came in.',
    flags: [
      account,
      { name: 'usd', value: 'X', required: true, help: 'the amount, at most six decimals' },
      {
        name: 'reference',
        value: 'R',
        required: false,
        help: 'a top-up sent again under the same reference is booked once',
      },
    ],
    run: async (flags, calls) =>
      accountAnswer(
        await calls.invoke('topUpAccount', {
          accountId: flags.get('account'),
          amountMicros: usdFlag(flags, 'usd')?.toString(),
          ...(flags.has('reference') ? { reference: flags.get('reference') } : {}),
        }),
      ),
  },
  {
    name: 'account show',
    help: 'Shows balance and holds, and whether the books, recomputed from their entries, agree.',
    flags: [account],
    run: async (flags, calls) =>
      accountAnswer(await calls.invoke('showAccount', { accountId: flags.get('account') })),
  },
  {
    name: 'key create',
    help: 'Makes one more API key, which is shown this once.',
    flags: [account],
    async run(flags, calls) {
      const answer = await calls.invoke('createKey', { accountId: flags.get('account') });
      return { key_id: answer.keyId, api_key: answer.apiKey };
    },
  },
  {
    name: 'key revoke',
    help: 'Ends a key, from the next call on and for good.',
    flags: [key],
    run: async (flags, calls) => keyAnswer(await calls.invoke('revokeKey', { keyId: flags.get('key') })),
  },
  {
    name: 'key limit',
    help: 'Sets how many requests a minute a key may send.',
    flags: [
      key,
      { name: 'per-minute', value: 'N', required: true, help: 'a whole number from 1 to 1000000' },
    ],
    run: async (flags, calls) =>
      keyAnswer(
        await calls.invoke('limitKey', {
          keyId: flags.get('key'),
          perMinute: wholeFlag(flags, 'per-minute'),
        }),
      ),
  },
  ...(['enable', 'disable'] as const).map(
    (verb): Command => ({
      name: `capability ${verb}`,
      help:
        verb === 'enable'
          ? 'Switches a capability on; it is offered when an engine for it is installed.'
          : 'Switches a capability off; work that was submitted goes on.',
      flags: [capability('name')],
      run: async (flags, calls) => {
        const request = { capability: flags.get('name'), on: verb === 'enable' };
        const answer = await calls.invoke('switchCapability', request);
        return { capability: answer.capability, enabled: answer.enabled };
      },
    }),
  ),
  {
    name: 'limit set',
    help: 'Sets how much an account may have in flight at once.',
    flags: [
      account,
      { name: 'jobs-in-flight', value: 'N', required: false, help: 'jobs queued or processing' },
      { name: 'live-sessions', value: 'N', required: false, help: 'sessions open' },
    ],
    async run(flags, calls) {
      const answer = await calls.invoke('setLimits', {
        accountId: flags.get('account'),
        ...optional('jobsInFlight', wholeFlag(flags, 'jobs-in-flight')),
        ...optional('liveSessions', wholeFlag(flags, 'live-sessions')),
      });
      return {
        account_id: answer.accountId,
        jobs_in_flight: answer.jobsInFlight,
        live_sessions: answer.liveSessions,
      };
    },
  },
  {
    name: 'rates set',
    help: 'Sets the public rate and minimum of a capability, or those of one account; what was submitted keeps its quote.',
    flags: [
      capability('capability'),
      { ...account, required: false, help: 'the account whose own rates these are; else the public ones' },
      { name: 'rate-usd', value: 'X', required: true, help: 'for one unit (image, second, minute)' },
      { name: 'minimum-usd', value: 'Y', required: true, help: 'the least that a job costs' },
    ],
    async run(flags, calls) {
      const answer = await calls.invoke('setRates', {
        capability: flags.get('capability'),
        ...optional('accountId', flags.get('account')),
        rateMicros: usdFlag(flags, 'rate-usd')?.toString(),
        minimumMicros: usdFlag(flags, 'minimum-usd')?.toString(),
      });
      return {
        capability: answer.capability,
        account_id: answer.accountId ?? null,
        version: Number(answer.version),
        unit: answer.unit,
        rate_usd: microsToUsd(BigInt(answer.rateMicros as string)),
        minimum_usd: microsToUsd(BigInt(answer.minimumMicros as string)),
      };
    },
  },
  {
    name: 'secret show',
    help: 'Shows the secret that webhooks of the account are signed with; makes it the first time.',
    flags: [account],
    run: async (flags, calls) => {
      const { secret } = await calls.invoke('showSecret', { accountId: flags.get('account') });
      return { secret };
    },
  },
  {
    name: 'secret rotate',
    help: 'Replaces the secret; deliveries carry signatures of both for a day.',
    flags: [account],
    run: async (flags, calls) => {
      const { secret } = await calls.invoke('rotateSecret', { accountId: flags.get('account') });
      return { secret };
    },
  },
  {
    name: 'delivery list',
    help: 'Lists webhook deliveries with every attempt, the newest first.',
    flags: [account],
    async run(flags, calls) {
      const { deliveries } = await calls.invoke('listDeliveries', { accountId: flags.get('account') });
      return (deliveries as Record<string, unknown>[]).map(deliveryAnswer);
    },
  },
  {
    name: 'delivery replay',
    help: 'Has a delivery tried again, under the same id.',
    flags: [{ name: 'delivery', value: 'ID', required: true, help: 'the delivery (dlv-…)' }],
    async run(flags, calls) {
      const { delivery } = await calls.invoke('replayDelivery', { deliveryId: flags.get('delivery') });
      return deliveryAnswer(delivery as Record<string, unknown>);
    },
  },
  ...SESSION_COMMANDS,
  ...USAGE_COMMANDS,
  ...VOICE_COMMANDS,
  ...RECORD_COMMANDS,
];

function deliveryAnswer(view: Record<string, unknown>): Record<string, unknown> {
  const attempts = view.attempts as { at: string; status?: number; error?: string }[];
  return {
    delivery_id: view.deliveryId,
    job_id: view.jobId,
    event: view.event,
    state: view.state,
    attempts: attempts.map(({ at, status, error }) => ({ at, status: status ?? null, error: error ?? null })),
  };
}

function accountAnswer(answer: Record<string, unknown>): Record<string, unknown> {
  const view = answer.account as Record<string, string | boolean>;
  const usd = (micros: unknown) => microsToUsd(BigInt(micros as string));
  return {
    account_id: view.accountId,
    name: view.name,
    balance: usd(view.balanceMicros),
    holds: usd(view.holdsMicros),
    holds_open: view.holdsOpen,
    reserved: usd(view.reservedMicros),
    ledger_ok: view.ledgerOk,
  };
}

function keyAnswer(answer: Record<string, unknown>): Record<string, unknown> {
  const view = answer.key as Record<string, string | number | undefined>;
  return {
    key_id: view.keyId,
    account_id: view.accountId,
    per_minute: view.perMinute,
    revoked_at: view.revokedAt ?? null,
  };
}
