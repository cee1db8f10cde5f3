import { CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import type { Command } from './command.ts';
import { readRatesFile } from './rates-file.ts';
import { type FlagSpec, type Flags, UsageError, usdFlag, usdOf, yesFlag } from './usage.ts';

const ofAccount: FlagSpec = {
  name: 'account',
  value: 'ID',
  required: false,
  help: 'the account whose own rates these are; else the public ones',
};
const capability: FlagSpec = {
  name: 'capability',
  value: 'C',
  required: true,
  help: `its path segment: ${CAPABILITY_NAMES.join(', ')}`,
};

interface Table {
  readonly rates: readonly { readonly when: Record<string, string>; readonly rateMicros: string }[];
  readonly minimumMicros: string;
  readonly holdMilliUnits: string;
  readonly previewMicros?: string;
}

/** Returns a table of rates in the form of a file of rates. */
function shownTable({ rates, minimumMicros, holdMilliUnits, previewMicros }: Table) {
  return {
    rates: rates.map(({ when, rateMicros }) => ({ when, rate_usd: usdOf(rateMicros) })),
    minimum_usd: usdOf(minimumMicros),
    hold_units: Number(holdMilliUnits) / 1000,
    // Absent: the capability has no previews.
    ...(previewMicros != null && { preview_usd: usdOf(previewMicros) }),
  };
}

const sameTable = (a: Table, b: Table) => JSON.stringify(shownTable(a)) === JSON.stringify(shownTable(b));

/** Commands for prices. */
export const RATES_COMMANDS: readonly Command[] = [
  {
    name: 'rates list',
    columns: [
      'capability',
      'account_id',
      'unit',
      'rates',
      'minimum_usd',
      'hold_units',
      'preview_usd',
      'version',
      'effective_at',
      'differs',
      'public',
      'coming',
    ],
    help: 'Lists the rates that count for everybody, or for an account beside the public ones, and those to come.',
    flags: [ofAccount, { ...capability, required: false, help: 'this one alone' }],
    async run(flags, calls) {
      const account = flags.get('account');
      const answer = await calls.invoke('listRates', account === undefined ? {} : { accountId: account });
      const asked = flags.get('capability');
      const rows = (answer.capabilities as Record<string, unknown>[])
        .filter((row) => asked === undefined || row.capability === asked)
        .map((row) => shownRates(row, account));
      if (rows.length === 0) throw new UsageError(`There is no capability "${asked}".`);
      return rows;
    },
  },
  {
    name: 'rates set',
    help: 'Sets rates, the minimum, what a hold assumes and what previews cost; what is not named stays, and what was submitted keeps its quote.',
    flags: [
      capability,
      ofAccount,
      {
        name: 'rate-usd',
        value: 'X',
        required: false,
        help: 'for one unit (image, second, minute); without --when that of everything that no other rate names',
      },
      {
        name: 'when',
        value: 'P=V',
        required: false,
        help: 'the size of output that --rate-usd is for, such as output_resolution_p=480',
      },
      { name: 'minimum-usd', value: 'Y', required: false, help: 'the least that a job costs' },
      {
        name: 'hold-units',
        value: 'N',
        required: false,
        help: 'units that a hold assumes, such as 60 or 1.5',
      },
      {
        name: 'preview-usd',
        value: 'Z',
        required: false,
        help: 'what a frame preview (POST /preview) costs; 0 until it is set',
      },
      {
        name: 'file',
        value: 'F',
        required: false,
        help: 'YAML with all rates (rates: [{when, rate_usd}], minimum_usd, hold_units, preview_usd); -: standard input',
      },
      {
        name: 'from',
        value: 'T',
        required: false,
        help: 'a later date or time from which they count, 2027-01-31T12:00:00Z',
      },
      { name: 'preview', value: '', required: false, help: 'changes nothing; shows what would be' },
    ],
    async run(flags, calls) {
      const request = {
        capability: flags.get('capability'),
        ...(flags.has('account') && { accountId: flags.get('account') }),
        ...(await tableAsked(flags)),
        ...(flags.has('from') && { startsAt: flags.get('from') }),
      };
      const preview = yesFlag(flags, 'preview');
      const answer = preview
        ? ((await calls.invoke('previewRates', { change: request })).change as Record<string, unknown>)
        : await calls.invoke('setRates', request);
      const [before, after] = [answer.before as Table, answer.after as Table];
      return {
        capability: answer.capability,
        account_id: answer.accountId ?? null,
        ...(preview ? { preview: true } : { version: numberOr(answer.version) }),
        unit: answer.unit,
        rate_usd: usdOf(after.rates.at(-1)?.rateMicros),
        ...shownTable(after),
        before: shownTable(before),
        ...(answer.startsAt !== undefined && {
          starts_at: answer.startsAt,
          coming_id: numberOr(answer.comingId),
        }),
      };
    },
  },
  {
    name: 'rates reset',
    help: 'Ends an account’s own rates of a capability; the public ones count for it again.',
    flags: [capability, { ...ofAccount, required: true, help: 'the account (acct-…)' }],
    async run(flags, calls) {
      const answer = await calls.invoke('resetRates', {
        accountId: flags.get('account'),
        capability: flags.get('capability'),
      });
      return {
        capability: answer.capability,
        account_id: answer.accountId,
        version: numberOr(answer.version),
        ...shownTable(answer.after as Table),
        before: shownTable(answer.before as Table),
      };
    },
  },
  {
    name: 'rates cancel',
    help: 'Removes rates that were to come.',
    flags: [{ name: 'id', value: 'N', required: true, help: 'as `rates list` names it under `coming`' }],
    async run(flags, calls) {
      const id = flags.get('id') ?? '';
      if (!/^\d{1,18}$/.test(id)) throw new UsageError(`--id must be a whole number, not "${id}"`);
      const answer = await calls.invoke('cancelRates', { id });
      return {
        capability: answer.capability,
        account_id: answer.accountId ?? null,
        cancelled: shownComing(answer.cancelled as Coming),
      };
    },
  },
];

const numberOr = (value: unknown) => (value === undefined ? null : Number(value));

interface Coming {
  readonly id: string;
  readonly startsAt: string;
  readonly rates: Table;
}

const shownComing = ({ id, startsAt, rates }: Coming) => ({
  id: Number(id),
  starts_at: startsAt,
  ...shownTable(rates),
});

function shownRates(row: Record<string, unknown>, account: string | undefined): Record<string, unknown> {
  const [rates, publicRates] = [row.rates as Table, row.publicRates as Table];
  return {
    capability: row.capability,
    account_id: row.own ? account : null,
    unit: row.unit,
    version: Number(row.version),
    effective_at: row.effectiveAt,
    ...shownTable(rates),
    ...(row.own === true && { differs: !sameTable(rates, publicRates), public: shownTable(publicRates) }),
    coming: (row.coming as Coming[]).map(shownComing),
  };
}

/** Returns the part of SetRatesRequest that the flags say. @throws UsageError */
async function tableAsked(flags: Flags): Promise<Record<string, unknown>> {
  const path = flags.get('file');
  const [rate, minimum, hold] = [usdFlag(flags, 'rate-usd'), usdFlag(flags, 'minimum-usd'), holdFlag(flags)];
  const previews = usdFlag(flags, 'preview-usd');
  const single = {
    ...(minimum !== undefined && { minimumMicros: minimum.toString() }),
    ...hold,
    ...(previews !== undefined && { previewMicros: previews.toString() }),
  };
  if (path !== undefined) {
    if (rate !== undefined || flags.has('when'))
      throw new UsageError('rates set takes its rates either from --file or from --rate-usd.');
    return { whole: true, ...(await readRatesFile(path)), ...single };
  }
  if (rate === undefined) {
    if (flags.has('when')) throw new UsageError('--when needs --rate-usd.');
    if (Object.keys(single).length === 0)
      throw new UsageError(
        'rates set needs --rate-usd, --minimum-usd, --hold-units, --preview-usd or --file.',
      );
    return { rates: [], ...single };
  }
  return { rates: [{ when: whenFlag(flags), rateMicros: rate.toString() }], ...single };
}

function holdFlag(flags: Flags): { holdMilliUnits?: string } {
  const text = flags.get('hold-units');
  if (text === undefined) return {};
  if (!/^\d{1,6}(\.\d{1,3})?$/.test(text))
    throw new UsageError(`--hold-units must be a number with at most three decimals, not "${text}"`);
  return { holdMilliUnits: String(Math.round(Number(text) * 1000)) };
}

function whenFlag(flags: Flags): Record<string, string> {
  const text = flags.get('when');
  if (text === undefined) return {};
  const [, name, value] = /^([a-z_]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new UsageError(`--when is written as output_resolution_p=480, not "${text}"`);
  return { [name]: value };
}
