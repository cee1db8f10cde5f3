import { SCOPES } from '@semblance/common/scopes';
import { KEY_PREFIX } from '../accounts/key-prefix.ts';
import { CAPS, capsIn } from './cap-commands.ts';
import type { Command } from './command.ts';
import { type FlagSpec, type Flags, given, UsageError, usdOf, wholeFlag } from './usage.ts';

type Row = Record<string, unknown>;

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };
const key: FlagSpec = { name: 'key', value: 'ID', required: true, help: 'the id of the key (key-…)' };

/** Flags with what a key may do. */
const RULES: readonly FlagSpec[] = [
  {
    name: 'scope',
    value: 'S,…',
    required: false,
    help: `what it may do, of ${SCOPES.join(', ')}; a new key may do everything when left out`,
  },
  {
    name: 'expires',
    value: 'T',
    required: false,
    help: 'when it ends: a date, or a time such as 2026-01-31T09:30:00Z; never: it does not',
  },
  {
    name: 'allow',
    value: 'A,…',
    required: false,
    help: 'addresses and networks that it is taken from, such as 192.0.2.0/24; any: from everywhere',
  },
  ...CAPS,
];

/** Returns the flags as KeyRules, which contain only what is given. */
function rulesIn(flags: Flags): Row {
  const [scopes, expires, allow] = ['scope', 'expires', 'allow'].map((name) => flags.get(name));
  const list = (text: string) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '');
  if (scopes !== undefined && list(scopes).length === 0) throw new UsageError('--scope names no scope');
  if (allow !== undefined && list(allow).length === 0)
    throw new UsageError('--allow names no address; any: from everywhere');
  return {
    ...(scopes === undefined ? {} : { scopes: list(scopes) }),
    ...(expires === undefined ? {} : { expiresAt: expires === 'never' ? '' : expires }),
    ...(allow === undefined ? {} : { allowedAddresses: { ranges: allow === 'any' ? [] : list(allow) } }),
    ...capsIn(flags),
  };
}

/** Commands for API keys. */
export const KEY_COMMANDS: readonly Command[] = [
  {
    name: 'key create',
    help: 'Makes one more API key, which is shown this once.',
    flags: [
      account,
      { name: 'name', value: 'N', required: false, help: 'what to call it, 1 to 100 characters' },
      ...RULES,
    ],
    async run(flags, calls) {
      const answer = await calls.invoke('createKey', {
        accountId: flags.get('account'),
        ...given(flags, 'name', 'name'),
        rules: rulesIn(flags),
      });
      return { key_id: answer.keyId, api_key: answer.apiKey };
    },
  },
  {
    name: 'key set',
    help: 'Sets what a key may do, until when, from where and how much it may spend; what is left out stays.',
    flags: [key, ...RULES],
    async run(flags, calls) {
      if (!RULES.some(({ name }) => flags.has(name)))
        throw new UsageError(
          `key set needs ${RULES.map(({ name }) => `--${name}`).join(', ')}, or some of them.`,
        );
      return keyAnswer(await calls.invoke('setKey', { keyId: flags.get('key'), rules: rulesIn(flags) }));
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
  {
    name: 'key list',
    columns: [
      'key_id',
      'account_id',
      'name',
      'prefix',
      'per_minute',
      'scopes',
      'expires_at',
      'allowed_addresses',
      'cap_day_usd',
      'cap_month_usd',
      'created_at',
      'last_used_at',
      'revoked_at',
    ],
    help: 'Lists keys, the newest first; of what they consist of only the first characters are kept.',
    flags: [
      { ...account, required: false, help: 'of this account (acct-…)' },
      {
        name: 'prefix',
        value: 'P',
        required: false,
        help: 'those that begin so: the first 14 characters, or a whole key, of which no more is sent',
      },
    ],
    async run(flags, calls) {
      if (!flags.has('account') && !flags.has('prefix'))
        throw new UsageError('key list needs --account or --prefix.');
      const { keys } = await calls.invoke('listKeys', {
        ...given(flags, 'account', 'accountId'),
        ...(flags.has('prefix') ? { prefix: flags.get('prefix')?.slice(0, KEY_PREFIX) } : {}),
      });
      return (keys as Row[]).map(keyEntry);
    },
  },
];

const keyAnswer = (answer: Row): Row => keyEntry(answer.key as Row);

function keyEntry(view: Row): Row {
  return {
    key_id: view.keyId,
    account_id: view.accountId,
    name: view.name ?? null,
    prefix: view.prefix ?? null,
    per_minute: view.perMinute,
    scopes: view.scopes,
    expires_at: view.expiresAt ?? null,
    allowed_addresses: view.allowedAddresses,
    cap_day_usd: view.capDayMicros == null ? null : usdOf(view.capDayMicros),
    cap_month_usd: view.capMonthMicros == null ? null : usdOf(view.capMonthMicros),
    last_used_at: view.lastUsedAt ?? null,
    created_at: view.createdAt,
    revoked_at: view.revokedAt ?? null,
  };
}
