import type { Command } from './command.ts';
import { type FlagSpec, wholeFlag } from './usage.ts';

type Row = Record<string, unknown>;

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };

/** Flags of `limit set`, with the fields of the request and of the answer. */
const LIMITS = [
  {
    flag: 'jobs-in-flight',
    field: 'jobsInFlight',
    shown: 'jobs_in_flight',
    help: 'jobs queued or processing',
  },
  { flag: 'live-sessions', field: 'liveSessions', shown: 'live_sessions', help: 'sessions open' },
  { flag: 'stored-mb', field: 'storedMb', shown: 'stored_mb', help: 'megabytes of stored uploads' },
  {
    flag: 'daily-mb',
    field: 'dailyMb',
    shown: 'daily_mb',
    help: 'megabytes of uploads in a day (UTC) while it has no money',
  },
  {
    flag: 'failed-slot-seconds',
    field: 'failedSlotSeconds',
    shown: 'failed_slot_seconds',
    help: 'slot-seconds in an hour of renders that fail on their inputs, take too long or are cancelled',
  },
] as const;

/** Commands for what an account may have. */
export const LIMIT_COMMANDS: readonly Command[] = [
  {
    name: 'limit show',
    columns: ['name', 'limit', 'own', 'used'],
    help: 'Shows what an account may have, whether the limit is its own, and how much is used.',
    flags: [account],
    async run(flags, calls) {
      const { limits } = await calls.invoke('showLimits', { accountId: flags.get('account') });
      return (limits as Row[]).map(({ name, limit, own, used }) => ({
        name,
        limit: limit ?? null,
        own,
        used: Math.round(Number(used) * 1_000) / 1_000,
      }));
    },
  },
  {
    name: 'limit set',
    help: 'Sets how much an account may have.',
    flags: [account, ...LIMITS.map(({ flag, help }) => ({ name: flag, value: 'N', required: false, help }))],
    async run(flags, calls) {
      const asked = LIMITS.flatMap(({ flag, field }) => {
        const value = wholeFlag(flags, flag);
        return value === undefined ? [] : [[field, value]];
      });
      const answer = await calls.invoke('setLimits', {
        accountId: flags.get('account'),
        ...Object.fromEntries(asked),
      });
      return {
        account_id: answer.accountId,
        ...Object.fromEntries(LIMITS.map(({ field, shown }) => [shown, answer[field] ?? null])),
      };
    },
  },
];
