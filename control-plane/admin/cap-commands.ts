import type { Command } from './command.ts';
import { type FlagSpec, type Flags, given, UsageError, usdFlag, usdOf } from './usage.ts';

type Row = Record<string, unknown>;

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };

/** Flags with caps of an account or a key. */
export const CAPS: readonly FlagSpec[] = (['day', 'month'] as const).map((period) => ({
  name: `cap-${period}`,
  value: 'USD',
  required: false,
  help: `most that may be spent and held in a ${period}, UTC; none: as much as there is`,
}));

const ALARM: FlagSpec = {
  name: 'alarm-balance',
  value: 'USD',
  required: false,
  help: 'available balance below which balance.low is sent to the account; none: it is not',
};

/** Returns the caps that are given, as the fields of AccountCaps and KeyRules; -1: none. @throws UsageError */
export function capsIn(flags: Flags): Row {
  return {
    ...(flags.has('cap-day') ? { capDayMicros: capFlag(flags, 'cap-day') } : {}),
    ...(flags.has('cap-month') ? { capMonthMicros: capFlag(flags, 'cap-month') } : {}),
  };
}

function capFlag(flags: Flags, name: string): string {
  if (flags.get(name) === 'none') return '-1';
  const micros = usdFlag(flags, name) ?? 0n;
  if (micros < 0n) throw new UsageError(`--${name} is an amount from 0 USD, or none`);
  return micros.toString();
}

const COLUMNS = [
  'holder',
  'key_id',
  'period',
  'cap_usd',
  'owner_cap_usd',
  'own_cap_usd',
  'spent_usd',
  'held_usd',
  'left_usd',
  'ends_at',
];

/** Commands for what may be spent. */
export const CAP_COMMANDS: readonly Command[] = [
  {
    name: 'cap show',
    tables: { caps: COLUMNS },
    help: 'Shows what an account and its keys may spend in a day and a month, what is spent and held of it, and the alarm of the balance.',
    flags: [account, { name: 'key', value: 'ID', required: false, help: 'of this key (key-…) alone' }],
    async run(flags, calls) {
      const accountId = flags.get('account');
      const answer = await calls.invoke('showCaps', { accountId, ...given(flags, 'key', 'keyId') });
      return {
        account_id: accountId,
        ...alarmOf(answer.alarm as Row | undefined),
        caps: (answer.holders as Row[]).flatMap(capsOf),
      };
    },
  },
  {
    name: 'cap set',
    tables: { caps: COLUMNS },
    help: 'Sets what an account may spend in a day and a month; its holder can set less, and not more.',
    flags: [account, ...CAPS, ALARM],
    async run(flags, calls) {
      if (![...CAPS, ALARM].some(({ name }) => flags.has(name)))
        throw new UsageError('cap set needs --cap-day, --cap-month or --alarm-balance.');
      const alarm = flags.has(ALARM.name) ? { alarmBalanceMicros: capFlag(flags, ALARM.name) } : {};
      const caps = { ...capsIn(flags), ...alarm };
      const answer = await calls.invoke('setCaps', { accountId: flags.get('account'), caps });
      const [set, balance] = [answer.caps, answer.alarm] as [Row, Row];
      return {
        account_id: set.accountId,
        ...alarmOf(balance),
        caps: capsOf(set),
      };
    },
  },
];

/** @param alarm of an account; undefined: of a key, which has none */
const alarmOf = (alarm: Row | undefined) =>
  alarm && {
    alarm_balance_usd: usdOrNull(alarm.alarmBalanceMicros),
    balance_is_low: alarm.isLow,
  };

const usdOrNull = (micros: unknown) => (micros == null ? null : usdOf(micros));

function capsOf({ keyId, caps }: Row): Row[] {
  return (caps as Row[]).map((cap) => {
    const { capMicros, spentMicros, heldMicros } = cap;
    const used = BigInt(spentMicros as string) + BigInt(heldMicros as string);
    return {
      holder: cap.holder,
      key_id: keyId ?? null,
      period: cap.period,
      cap_usd: usdOrNull(capMicros),
      owner_cap_usd: usdOrNull(cap.ownerCapMicros),
      own_cap_usd: usdOrNull(cap.ownCapMicros),
      spent_usd: usdOf(spentMicros),
      held_usd: usdOf(heldMicros),
      left_usd: capMicros == null ? null : usdOf(BigInt(capMicros as string) - used),
      ends_at: cap.endsAt,
    };
  });
}
