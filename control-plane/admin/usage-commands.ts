import { MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import { usageEntry, usageSummary } from '@semblance/common/usage-record';
import type { Command } from './command.ts';
import { type FlagSpec, type Flags, UsageError, wholeFlag } from './usage.ts';

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };
const from: FlagSpec = {
  name: 'from',
  value: 'T',
  required: false,
  help: 'calls made then or later: a date (midnight UTC), or a time with its zone, 2026-01-31T12:00:00Z',
};
const to: FlagSpec = { name: 'to', value: 'T', required: false, help: 'calls made before then' };

/** Commands for the usage of accounts, as their owners read it in the API. */
export const USAGE_COMMANDS: readonly Command[] = [
  {
    name: 'usage list',
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
    help: 'Sums the calls of an account, of all time or of a part of it.',
    flags: [account, from, to],
    async run(flags, calls) {
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
