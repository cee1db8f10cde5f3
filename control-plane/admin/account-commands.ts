import type { Command } from './command.ts';
import { type FlagSpec, given, LIST_LIMIT, listLimit, usdFlag, usdOf, yesFlag } from './usage.ts';

type Row = Record<string, unknown>;

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };

/** Commands for accounts. */
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
    async run(flags, calls) {
      const answer = await calls.invoke('topUpAccount', {
        accountId: flags.get('account'),
        amountMicros: usdFlag(flags, 'usd')?.toString(),
        ...given(flags, 'reference', 'reference'),
      });
      return { ...accountAnswer(answer), ...bookedAnswer(answer) };
    },
  },
  {
    name: 'account adjust',
    help: 'Gives a charge back, or corrects what was topped up, with a reason in the books.',
    flags: [
      account,
      {
        name: 'usd',
        value: 'X',
        required: true,
        help: 'what the balance grows by; a correction may take away, such as -3',
      },
      { name: 'reason', value: 'R', required: true, help: 'why, at most 500 characters' },
      {
        name: 'reference',
        value: 'R',
        required: true,
        help: 'an adjustment sent again under the same reference is booked once',
      },
      {
        name: 'refund-of',
        value: 'ID',
        required: false,
        help: 'the job (job-…) or session (ses-…) whose charge is given back; without it this is a correction',
      },
      {
        name: 'into-debt',
        value: '',
        required: false,
        help: 'lets a correction take more than is available',
      },
    ],
    async run(flags, calls) {
      const answer = await calls.invoke('adjustAccount', {
        accountId: flags.get('account'),
        amountMicros: usdFlag(flags, 'usd')?.toString(),
        reference: flags.get('reference'),
        reason: flags.get('reason'),
        ...given(flags, 'refund-of', 'refundOf'),
        intoDebt: yesFlag(flags, 'into-debt'),
      });
      return {
        account_id: answer.accountId,
        kind: answer.kind,
        usd: usdOf(usdFlag(flags, 'usd')),
        balance: usdOf(answer.balanceMicros),
        ...bookedAnswer(answer),
      };
    },
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
    columns: ['account_id', 'name', 'created_at', 'balance', 'holds', 'reserved', 'keys'],
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

/** Says whether something was booked by this call. */
function bookedAnswer({ bookedBefore }: Row): Row {
  return bookedBefore
    ? { booked: false, note: 'This reference was booked before, so nothing was booked now.' }
    : { booked: true };
}
