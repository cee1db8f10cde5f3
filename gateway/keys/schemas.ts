import { MOMENT_FORM, MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import { parseUsd } from '@semblance/common/money';
import { SCOPES } from '@semblance/common/scopes';
import { z } from 'zod';
import { isoTime, signedUsd, usd } from '../openapi/parts.ts';

/** Schemas of keys and caps, as the holder of an account sees and sets them. */

const scope = z
  .enum(SCOPES, `must be one of ${SCOPES.join(', ')}`)
  .meta({ id: 'Scope', description: 'What a key may do.' });

/** @param what one sentence */
const cap = (what: string, leftOut: string, none = 'no cap') =>
  z
    .number('must be a number, or null')
    .min(0, 'must be an amount from 0 USD')
    .refine(isAmount, 'must be an amount from 0 USD with at most six decimals')
    .meta({ description: `${what} In US dollars, to the millionth; null: ${none}. ${leftOut}` })
    .nullable()
    .optional();

function isAmount(value: number): boolean {
  try {
    return parseUsd(String(value)) >= 0n;
  } catch {
    return false;
  }
}

/** @param leftOut what a field is that is left out, as a sentence */
const rulesWith = (leftOut: string) => ({
  name: z
    .string('must be a string')
    .trim()
    .min(1, 'must have 1 to 100 characters')
    .max(100, 'must have 1 to 100 characters')
    .nullable()
    .optional()
    .meta({ description: `What to call it, without control characters; null: nothing. ${leftOut}` }),
  scopes: z
    .array(scope, 'must be a list of scopes')
    .min(1, 'must name at least one scope')
    .max(SCOPES.length, 'must name each scope once')
    .optional()
    .meta({
      description: `\`submit\`: upload, submit, cancel and delete. \`read\`: all that only reads. \`sessions\`: open and end live sessions. \`account\`: keys, caps and settings of the account. ${leftOut}`,
    }),
  expires_at: z
    .string('must be a string, or null')
    .refine((text) => parseMoment(text) !== undefined, MOMENT_RULE)
    .nullable()
    .optional()
    .meta({ description: `When it ends; null: never. ${leftOut}`, pattern: MOMENT_FORM }),
  allowed_addresses: z
    .array(z.string('must be a string').max(64, 'must be an address or a network'), 'must be a list, or null')
    .max(32, 'must have at most 32 networks')
    .nullable()
    .optional()
    .meta({
      description: `Addresses and networks that it is taken from, such as 192.0.2.0/24 or 2001:db8::/32; null or none: from everywhere. ${leftOut}`,
    }),
  cap_day_usd: cap('Most that may be spent and held with it in a day (UTC).', leftOut),
  cap_month_usd: cap('Most that may be spent and held with it in a month (UTC).', leftOut),
});

const STAYS = 'Left out: it stays.';
const OBJECT = 'The body must be a JSON object';
export const newKeyBody = z
  .object(rulesWith('Left out: as with the key that asks.'), OBJECT)
  .meta({ id: 'NewKey' });
export const keyChangeBody = z.object(rulesWith(STAYS), OBJECT).meta({ id: 'KeyChange' });
export const accountChangeBody = z
  .object(
    {
      cap_day_usd: cap('Most that the account may spend and hold in a day (UTC).', STAYS),
      cap_month_usd: cap('Most that the account may spend and hold in a month (UTC).', STAYS),
      alarm_balance_usd: cap(
        'Available balance below which `balance.low` is sent to webhook endpoints.',
        STAYS,
        'no alarm',
      ),
    },
    OBJECT,
  )
  .meta({ id: 'AccountChange' });

const capState = {
  period: z.enum(['day', 'month']).meta({ description: 'A day or a month, UTC.' }),
  cap_usd: usd('The cap; null: there is none.').nullable(),
  spent_usd: usd('What was charged in the present period.'),
  held_usd: usd('What is held and reserved now.'),
  left_usd: signedUsd('What the cap leaves; null: there is none.').nullable(),
  ends_at: isoTime('When the next period begins.'),
};

export const keySchema = z
  .object({
    key_id: z.string().meta({ description: 'Id of the key.' }),
    name: z.string().nullable().meta({ description: 'What it is called; null: nothing.' }),
    prefix: z
      .string()
      .nullable()
      .meta({ description: 'Its first characters; null: it is from before they were kept.' }),
    scopes: z.array(scope).meta({ description: 'What it may do.' }),
    expires_at: isoTime('When it ends; null: never.').nullable(),
    allowed_addresses: z
      .array(z.string())
      .meta({ description: 'Networks that it is taken from; none: from everywhere.' }),
    caps: z
      .array(
        z.object(capState).meta({ id: 'KeyCap', description: 'A cap of a key, and what counts toward it.' }),
      )
      .meta({ description: 'By day and by month. What is spent with keys that it made counts too.' }),
    requests_per_minute: z
      .int()
      .min(1)
      .meta({ description: 'Number of requests a minute that it may send.' }),
    created_at: isoTime('When it was made.'),
    last_used_at: isoTime('When it was last used, to some minutes; null: never.').nullable(),
    made_by: z
      .string()
      .nullable()
      .meta({ description: 'Id of the key that made it; null: the owner of the service did.' }),
  })
  .meta({ id: 'Key', description: 'An API key, without its secret.' });

export const newKeySchema = keySchema
  .extend({ api_key: z.string().meta({ description: 'The key itself, which is shown this once.' }) })
  .meta({ id: 'MadeKey', description: 'A key that was just made.' });

export const keysSchema = z
  .object({ keys: z.array(keySchema).meta({ description: 'The keys, newest first.' }) })
  .meta({ id: 'KeyList' });

export const accountSchema = z
  .object({
    alarm_balance_usd: usd(
      'Available balance below which `balance.low` is sent to webhook endpoints; null: it is not.',
    ).nullable(),
    available_usd: signedUsd('What a submit or a session may use now, as in `GET /balance`.'),
    balance_is_low: z.boolean().meta({ description: 'Whether less is available than the alarm.' }),
    caps: z
      .array(
        z
          .object({
            ...capState,
            owner_cap_usd: usd('What the owner of the service set; null: nothing.').nullable(),
            own_cap_usd: usd('What was set with a key; null: nothing. The lower one counts.').nullable(),
          })
          .meta({ id: 'AccountCap', description: 'A cap of an account, and what counts toward it.' }),
      )
      .meta({ description: 'By day and by month.' }),
  })
  .meta({ id: 'Account' });

const EXAMPLE_CAP = {
  period: 'day',
  cap_usd: 20,
  spent_usd: 4.2,
  held_usd: 0.6,
  left_usd: 15.2,
  ends_at: '2026-02-01T00:00:00Z',
};
const NO_CAP = { ...EXAMPLE_CAP, period: 'month', cap_usd: null, left_usd: null };

export const EXAMPLE_KEY = {
  key_id: 'key-01k9x3v7m2q8r5t1w4y6z0abcd',
  name: 'shop',
  prefix: 'sk_live_yDLLZx',
  scopes: ['submit', 'read'],
  expires_at: '2027-01-31T00:00:00Z',
  allowed_addresses: ['192.0.2.0/24'],
  caps: [EXAMPLE_CAP, NO_CAP],
  requests_per_minute: 60,
  created_at: '2026-01-31T09:30:00Z',
  last_used_at: null,
  made_by: 'key-01k9x3v7m2q8r5t1w4y6z0owns',
};

export const EXAMPLE_ACCOUNT = {
  alarm_balance_usd: 10,
  available_usd: 36.5,
  balance_is_low: false,
  caps: [
    { ...EXAMPLE_CAP, owner_cap_usd: 50, own_cap_usd: 20 },
    { ...NO_CAP, owner_cap_usd: null, own_cap_usd: null },
  ],
};
