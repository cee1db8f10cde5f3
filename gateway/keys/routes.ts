import { z } from 'zod';
import type { Operation, Route } from '../openapi/operation.ts';
import {
  changeAccount,
  changeKey,
  createKey,
  type KeyOptions,
  listKeys,
  readAccount,
  revokeKey,
} from './keys.ts';
import {
  accountChangeBody,
  accountSchema,
  EXAMPLE_ACCOUNT,
  EXAMPLE_KEY,
  keyChangeBody,
  keySchema,
  keysSchema,
  newKeyBody,
  newKeySchema,
} from './schemas.ts';

const path = z.object({
  key_id: z.string().meta({ description: 'Id of a key of the account.', pattern: '^key-[0-9a-z]{26}$' }),
});
const JSON_TYPE = 'application/json';
const example = {
  name: 'shop',
  scopes: ['submit', 'read'],
  allowed_addresses: ['192.0.2.0/24'],
  cap_day_usd: 20,
};

const list: Operation = {
  id: 'listKeys',
  tag: 'Account',
  summary: 'List the keys of the account',
  description: 'The keys that were not revoked, newest first, expired ones too.',
  key: 'required',
  answers: [{ status: 200, description: 'The keys.', schema: keysSchema, example: { keys: [EXAMPLE_KEY] } }],
};

const create: Operation = {
  id: 'createKey',
  tag: 'Account',
  summary: 'Make a key',
  description:
    'The new key may do no more than the one that makes it: its scopes, end, addresses and caps are within those, else `forbidden`. What is left out is as with that one. What is spent with it counts toward the caps of the key that made it, too. The key itself is in this answer alone. An account has at most 100 keys.',
  key: 'required',
  body: { type: JSON_TYPE, schema: newKeyBody, example, optional: true },
  answers: [
    {
      status: 201,
      description: 'The key.',
      schema: newKeySchema,
      example: { ...EXAMPLE_KEY, api_key: 'sk_live_yDLLZx…' },
    },
  ],
  errors: ['invalid_input', 'at_capacity'],
};

const change: Operation = {
  id: 'changeKey',
  tag: 'Account',
  summary: 'Change a key',
  description:
    'Sets what the body names; the rest stays. A key can be narrowed with any key that has the scope `account`. What widens it must leave it within what the asking key may do, and an asking key with a cap can widen only keys that it made; else `forbidden`. It counts from the next call on.',
  key: 'required',
  path,
  body: { type: JSON_TYPE, schema: keyChangeBody, example, optional: true },
  answers: [{ status: 200, description: 'The key as it is now.', schema: keySchema, example: EXAMPLE_KEY }],
  errors: ['invalid_input', 'not_found'],
};

const revoke: Operation = {
  id: 'revokeKey',
  tag: 'Account',
  summary: 'Revoke a key',
  description:
    'Ends a key for good, from the next call on, and links that it asked for. It may be the asking key. Keys that it made stay. Repeating the call changes nothing.',
  key: 'required',
  path,
  answers: [
    {
      status: 200,
      description: 'The key is revoked.',
      schema: z
        .object({
          key_id: z.string().meta({ description: 'Id of the key.' }),
          revoked: z.literal(true).meta({ description: 'Always true.' }),
        })
        .meta({ id: 'RevokedKey' }),
      example: { key_id: EXAMPLE_KEY.key_id, revoked: true },
    },
  ],
  errors: ['not_found'],
};

const read: Operation = {
  id: 'getAccount',
  tag: 'Account',
  summary: 'Read caps and alarm of the account',
  description:
    'What the account may spend in a day and a month, what is spent, held and left of it, and the alarm of its balance.',
  key: 'required',
  answers: [{ status: 200, description: 'The account.', schema: accountSchema, example: EXAMPLE_ACCOUNT }],
};

const set: Operation = {
  id: 'changeAccount',
  tag: 'Account',
  summary: 'Set caps and alarm of the account',
  description:
    'Sets what the body names; the rest stays. A cap above that of the owner of the service is `forbidden`.',
  key: 'required',
  body: { type: JSON_TYPE, schema: accountChangeBody, example: { cap_day_usd: 20 }, optional: true },
  answers: [
    {
      status: 200,
      description: 'The account as it is now.',
      schema: accountSchema,
      example: EXAMPLE_ACCOUNT,
    },
  ],
  errors: ['invalid_input'],
};

/** Returns the routes with which the holder of an account manages keys and caps. */
export function keyRoutes(options: KeyOptions): Route[] {
  const scope = 'account';
  const one = '/keys/{key_id}';
  return [
    { method: 'get', path: '/keys', handler: listKeys(options), scope, operation: list },
    { method: 'post', path: '/keys', handler: createKey(options), scope, operation: create },
    { method: 'patch', path: one, handler: changeKey(options), scope, operation: change },
    { method: 'delete', path: one, handler: revokeKey(options), scope, operation: revoke },
    { method: 'get', path: '/account', handler: readAccount(options), scope, operation: read },
    { method: 'patch', path: '/account', handler: changeAccount(options), scope, operation: set },
  ];
}
