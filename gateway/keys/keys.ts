import { ApiError } from '@semblance/common/errors';
import type { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { hasBody, readJson } from '../http/json-body.ts';
import { parseQuery } from '../usage/query.ts';
import { accountRecord, accountRules, keyRecord, rulesOf } from './records.ts';
import { accountChangeBody, keyChangeBody, newKeyBody } from './schemas.ts';

export interface KeyOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for a body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

/** Handles GET /keys. */
export function listKeys({ control }: Pick<KeyOptions, 'control'>): Handler {
  return async (ctx) => {
    const { keys } = await control.listAccountKeys(ctx, { caller: requireCaller(ctx) });
    answer(ctx, { keys: keys.map(keyRecord) });
  };
}

/** Handles POST /keys. */
export function createKey(options: KeyOptions): Handler {
  return async (ctx) => {
    const { caller, body } = await bodyOf(ctx, options, newKeyBody);
    const request = { caller, name: body.name ?? undefined, rules: rulesOf(body) };
    const { key, apiKey } = await options.control.createAccountKey(ctx, request);
    ctx.status = 201;
    answer(ctx, { ...keyRecord(present(key)), api_key: apiKey });
  };
}

/** Handles PATCH /keys/{key_id}. */
export function changeKey(options: KeyOptions): Handler {
  return async (ctx) => {
    const { caller, body } = await bodyOf(ctx, options, keyChangeBody, requireKeyId);
    const name = body.name === null ? '' : body.name;
    const request = { caller, keyId: String(ctx.params.key_id), name, rules: rulesOf(body) };
    const { key } = await options.control.setAccountKey(ctx, request);
    answer(ctx, keyRecord(present(key)));
  };
}

/** Handles DELETE /keys/{key_id}. */
export function revokeKey({ control }: Pick<KeyOptions, 'control'>): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const keyId = await checked(ctx, control, () => requireKeyId(ctx));
    await control.revokeAccountKey(ctx, { caller, keyId });
    answer(ctx, { key_id: keyId, revoked: true });
  };
}

/** Handles GET /account. */
export function readAccount({ control }: Pick<KeyOptions, 'control'>): Handler {
  return async (ctx) => {
    const { caps, alarm } = await control.getAccountCaps(ctx, { caller: requireCaller(ctx) });
    answer(ctx, accountRecord(caps, present(alarm)));
  };
}

/** Handles PATCH /account. */
export function changeAccount(options: KeyOptions): Handler {
  return async (ctx) => {
    const { caller, body } = await bodyOf(ctx, options, accountChangeBody);
    const { caps, alarm } = await options.control.setAccountCaps(ctx, { caller, caps: accountRules(body) });
    answer(ctx, accountRecord(caps, present(alarm)));
  };
}

/** Answers with what nobody may keep: it names keys and amounts. */
function answer(ctx: GatewayContext, body: object): void {
  ctx.set('Cache-Control', 'no-store');
  ctx.body = body;
}

/** @throws ApiError not_found */
function requireKeyId(ctx: GatewayContext): string {
  const keyId = String(ctx.params.key_id);
  if (!/^key-[0-9a-z]{26}$/.test(keyId)) throw new ApiError('not_found', 'There is no such key.');
  return keyId;
}

/** Reads and checks a body; one that is left out sets nothing. With an invalid key the caller learns only that. */
async function bodyOf<T extends z.ZodType>(
  ctx: GatewayContext,
  { callerOf, control, bodyTimeoutMs }: KeyOptions,
  schema: T,
  check: (ctx: GatewayContext) => unknown = () => {},
) {
  const caller = await callerOf(ctx);
  try {
    check(ctx);
    const sent = hasBody(ctx) ? await readJson(ctx, bodyTimeoutMs) : {};
    return { caller, body: parseQuery(schema, sent) };
  } catch (error) {
    // The key is checked before a fault is reported, and refused calls count as calls.
    if (error instanceof ApiError) await control.authorize(ctx, { caller });
    throw error;
  }
}

function present<T>(key: T | undefined): T {
  if (key === undefined)
    throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
  return key;
}
