import { MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import { usageEntry, usageSummary } from '@semblance/common/usage-record';
import type { Command } from './command.ts';
import type { AdminCalls } from './connection.ts';
import { type FlagSpec, type Flags, UsageError, usdOf, wholeFlag, yesFlag } from './usage.ts';

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };
const from: FlagSpec = {
  name: 'from',
  value: 'T',
  required: false,
  help: 'calls made then or later: a date (midnight UTC), or a time with its zone, 2026-01-31T12:00:00Z',
};
const to: FlagSpec = { name: 'to', value: 'T', required: false, help: 'calls made before then' };

type Row = Record<string, unknown>;

const ACCOUNT_COLUMNS = [
  ...['month', 'account_id', 'name', 'total_calls', 'succeeded', 'failed', 'in_flight', 'spent_usd'],
  ...['refunded_usd', 'topped_up_usd', 'corrected_usd', 'balance_usd'],
];

/** Commands for the usage of accounts, as their owners read it in the API. */
export const USAGE_COMMANDS: readonly Command[] = [
  {
    name: 'usage list',
    columns: ['id', 'endpoint', 'feature', 'status', 'charged_usd', 'reason', 'created_at'],
    help: 'Lists the calls of an account, the newest first.',
    flags: [
      account,
      from,
      to,
      { name: 'limit', value: 'N', required: false, help: '1 to 500; 100 when left out' },
    ],
    async run(flags, calls) {
      const { entries } = await calls.invoke('listUsage', {
        accountId: flags.get('account'),
        range: rangeOf(flags),
        limit: wholeFlag(flags, 'limit') ?? 100,
      });
      return (entries as Record<string, string>[]).map((entry) =>
        usageEntry({
          id: entry.id ?? '',
          capability: entry.capability ?? '',
          status: entry.status ?? '',
          chargedMicros: BigInt(entry.chargedMicros ?? 0),
          reason: entry.reason,
          createdAt: entry.createdAt ?? '',
        }),
      );
    },
  },
  {
    name: 'usage summary',
    columns: ACCOUNT_COLUMNS,
    help: 'Sums the calls of an account, of all time or of a part of it; with --all those of every account in a month.',
    flags: [
      { ...account, required: false },
      from,
      to,
      { name: 'all', value: '', required: false, help: 'every account that called or was booked for' },
      {
        name: 'month',
        value: 'M',
        required: false,
        help: 'with --all: 2026-01; the present month when left out',
      },
    ],
    async run(flags, calls) {
      if (yesFlag(flags, 'all')) return summariesOf(flags, calls);
      if (!flags.has('account')) throw new UsageError('usage summary needs --account or --all.');
      if (flags.has('month')) throw new UsageError('--month goes with --all.');
      const answer = await calls.invoke('summarizeUsage', {
        accountId: flags.get('account'),
        range: rangeOf(flags),
      });
      const summary = answer.summary as Record<string, string> & { features: Record<string, string>[] };
      return usageSummary({
        succeeded: BigInt(summary.succeeded ?? 0),
        failed: BigInt(summary.failed ?? 0),
        inFlight: BigInt(summary.inFlight ?? 0),
        spentMicros: BigInt(summary.spentMicros ?? 0),
        features: summary.features.map((of) => ({
          feature: of.feature ?? '',
          calls: BigInt(of.calls ?? 0),
          spentMicros: BigInt(of.spentMicros ?? 0),
        })),
      });
    },
  },
];

/** Accounts of one answer. */
const PAGE = 10_000;

async function summariesOf(flags: Flags, calls: AdminCalls): Promise<Row[]> {
  const wrong = ['account', 'from', 'to'].filter((name) => flags.has(name));
  if (wrong.length > 0) throw new UsageError(`--all goes with --month, not with --${wrong[0]}.`);
  const rows: Row[] = [];
  // Without a month all pages are of the one that the first is of.
  for (let after = '', month = flags.get('month') ?? ''; ; ) {
    const answer = await calls.invoke('summarizeAccounts', { month, after, limit: PAGE });
    const accounts = answer.accounts as Row[];
    month = String(answer.month);
    rows.push(...accounts.map((row) => accountRow(month, row)));
    if (accounts.length < PAGE) return rows;
    after = String(accounts.at(-1)?.accountId);
  }
}

function accountRow(month: string, row: Row): Row {
  const calls = {
    succeeded: Number(row.succeeded),
    failed: Number(row.failed),
    in_flight: Number(row.inFlight),
  };
  return {
    month,
    account_id: row.accountId,
    name: row.name,
    total_calls: calls.succeeded + calls.failed + calls.in_flight,
    ...calls,
    spent_usd: usdOf(row.spentMicros),
    refunded_usd: usdOf(row.refundedMicros),
    topped_up_usd: usdOf(row.toppedUpMicros),
    corrected_usd: usdOf(row.correctedMicros),
    balance_usd: usdOf(row.balanceMicros),
  };
}

function rangeOf(flags: Flags) {
  return { ...moment(flags, 'from', 'fromMicros'), ...moment(flags, 'to', 'toMicros') };
}

/** @throws UsageError */
function moment(flags: Flags, flag: string, field: string): Record<string, string> {
  const text = flags.get(flag);
  if (text === undefined) return {};
  const micros = parseMoment(text);
  if (micros === undefined) throw new UsageError(`--${flag} ${MOMENT_RULE}`);
  return { [field]: micros.toString() };
}
