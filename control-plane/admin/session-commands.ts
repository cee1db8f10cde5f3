import type { Command } from './command.ts';
import { usdOf, yesFlag } from './usage.ts';

type Row = Record<string, unknown>;

/** Commands for live sessions. */
export const SESSION_COMMANDS: readonly Command[] = [
  {
    name: 'session list',
    columns: [
      'session_id',
      'account_id',
      'capability',
      'state',
      'agent',
      'asked_at',
      'ended_at',
      'max_duration_sec',
      'max_cost_usd',
      'streamed_sec',
      'charged_usd',
      'reason',
    ],
    help: 'Lists the live sessions of an account, the newest first.',
    flags: [
      { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' },
      { name: 'open', value: '', required: false, help: 'those that have not ended alone' },
    ],
    async run(flags, calls) {
      const { sessions } = await calls.invoke('listSessions', {
        accountId: flags.get('account'),
        open: yesFlag(flags, 'open'),
      });
      return (sessions as Row[]).map(sessionAnswer);
    },
  },
  {
    name: 'session end',
    help: 'Ends a live session as cancelled; what was streamed is billed.',
    flags: [{ name: 'session', value: 'ID', required: true, help: 'the session (ses-…)' }],
    async run(flags, calls) {
      const { session } = await calls.invoke('endSession', { sessionId: flags.get('session') });
      return { ...sessionAnswer(session as Row), end_requested: true };
    },
  },
];

function sessionAnswer(view: Row): Row {
  return {
    session_id: view.sessionId,
    account_id: view.accountId,
    capability: view.capability,
    state: view.state,
    agent: view.agent ?? null,
    asked_at: view.askedAt,
    ended_at: view.endedAt ?? null,
    max_duration_sec: view.maxDurationSeconds,
    max_cost_usd: usdOf(view.maxCostMicros),
    streamed_sec: Number(view.streamedMs) / 1000,
    charged_usd: view.chargedMicros === undefined ? null : usdOf(view.chargedMicros),
    reason: view.reason ?? null,
  };
}
