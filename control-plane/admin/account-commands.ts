import type { Command } from './command.ts';
import { type FlagSpec, LIST_LIMIT, listLimit, usdFlag, usdOf, wholeFlag } from './usage.ts';

type Row = Record<string, unknown>;

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };
const key: FlagSpec = { name: 'key', value: 'ID', required: true, help: 'the id of the key (key-…)' };

/** Commands for accounts and their keys. */
export const ACCOUNT_COMMANDS: readonly Command[] = [
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
    name: 'account list',
    help: 'Lists accounts with their balances and the number of keys in use, the newest first.',
    flags: [
      {
        name: 'search',
        value: 'TEXT',
        required: false,
        help: 'those alone whose name holds it, in any case',
      },
      LIST_LIMIT,
    ],
    async run(flags, calls) {
      const { accounts } = await calls.invoke('listAccounts', {
        ...(flags.has('search') ? { search: flags.get('search') } : {}),
        limit: listLimit(flags),
      });
      return (accounts as Row[]).map((view) => ({
        account_id: view.accountId,
        name: view.name,
        created_at: view.createdAt,
        balance: usdOf(view.balanceMicros),
        holds: usdOf(view.holdsMicros),
        reserved: usdOf(view.reservedMicros),
        keys: view.keys,
      }));
    },
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
  {
    name: 'key list',
    help: 'Lists the keys of an account, the newest first; what they consist of is not kept.',
    flags: [account],
    async run(flags, calls) {
      const { keys } = await calls.invoke('listKeys', { accountId: flags.get('account') });
      return (keys as Row[]).map(keyEntry);
    },
  },
];

function accountAnswer(answer: Row): Row {
  const view = answer.account as Row;
  return {
    account_id: view.accountId,
    name: view.name,
    balance: usdOf(view.balanceMicros),
    holds: usdOf(view.holdsMicros),
    holds_open: view.holdsOpen,
    reserved: usdOf(view.reservedMicros),
    ledger_ok: view.ledgerOk,
  };
}

const keyAnswer = (answer: Row): Row => keyEntry(answer.key as Row);

function keyEntry(view: Row): Row {
  return {
    key_id: view.keyId,
    account_id: view.accountId,
    per_minute: view.perMinute,
    created_at: view.createdAt,
    revoked_at: view.revokedAt ?? null,
  };
}
