import { ApiError } from '@semblance/common/errors';
import { microsToUsd } from '@semblance/common/money';
import type {
  AdjustAccountRequest,
  AdjustAccountResponse,
  CreateAccountRequest,
  CreateAccountResponse,
  CreateKeyRequest,
  CreateKeyResponse,
  DeleteMediaRequest,
  DeleteMediaResponse,
  EndSessionRequest,
  KeyView,
  LimitKeyRequest,
  LimitKeyResponse,
  PromoteSecretRequest,
  PromoteSecretResponse,
  ReplayDeliveryRequest,
  RevokeKeyRequest,
  RevokeKeyResponse,
  RotateSecretRequest,
  RotateSecretResponse,
  SetKeyRequest,
  SetKeyResponse,
  SetLimitsRequest,
  SetLimitsResponse,
  SetSettingRequest,
  SetSettingResponse,
  ShowSecretRequest,
  ShowSecretResponse,
  SwitchCapabilityRequest,
  SwitchCapabilityResponse,
  TopUpAccountRequest,
} from '@semblance/proto/semblance/admin/v1/admin';
import {
  createAccountIn,
  createKey,
  keyAfter,
  limitKey,
  requireAccount,
  revokeKey,
  setKey,
} from '../accounts/accounts.ts';
import { setLimits } from '../accounts/limits.ts';
import type { AuditFacts } from '../audit/audit.ts';
import { adjustAccount } from '../billing/adjust.ts';
import { topUp } from '../billing/ledger.ts';
import { switchCapability } from '../billing/rate-card.ts';
import { removeJobMedia, removeUpload } from '../media/media.ts';
import { requestEnd, type SessionRow } from '../sessions/list-sessions.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { replayDelivery } from '../webhooks/deliveries.ts';
import type { DeliveryView } from '../webhooks/list-deliveries.ts';
import { promoteSecret, replaceSecretNow, rotateSecret, showSecret } from '../webhooks/secrets.ts';
import { setSetting } from './settings.ts';

/** A change that was made: its answer and its audit record. */
export interface Changed<Response> {
  readonly response: Response;
  readonly audit: AuditFacts;
  /** Objects to be deleted after the commit. */
  readonly objectKeys?: readonly string[];
  /** Session whose LiveSession is to be deleted after the commit. */
  readonly endedSession?: string;
}

export async function accountCreated(
  tx: Transaction,
  { name, balanceMicros }: CreateAccountRequest,
): Promise<Changed<CreateAccountResponse>> {
  const response = await createAccountIn(tx, { name, balanceMicros });
  const { accountId, keyId } = response;
  const after = { name: name.trim(), balance_usd: microsToUsd(balanceMicros), key_id: keyId };
  return { response, audit: { accountId, subject: accountId, after } };
}

/** Answers with the account's id, and whether the top-up was booked by this call. */
export async function accountToppedUp(
  tx: Transaction,
  { accountId, amountMicros, reference }: TopUpAccountRequest,
): Promise<Changed<{ readonly accountId: string; readonly booked: boolean }>> {
  await requireAccount(tx, accountId);
  const [row] = await tx<{ available: bigint }[]>`
    select available_micros as available from account_balances where account_id = ${accountId} for no key update`;
  const before = row?.available ?? 0n;
  const booked = await topUp(tx, { accountId, amountMicros, reference });
  return {
    response: { accountId, booked },
    audit: {
      accountId,
      subject: accountId,
      before: { balance_usd: microsToUsd(before) },
      after: {
        balance_usd: microsToUsd(booked ? before + amountMicros : before),
        usd: microsToUsd(amountMicros),
        reference,
        booked,
      },
    },
  };
}

export async function accountAdjusted(
  tx: Transaction,
  { accountId, amountMicros, reference, reason, refundOf, intoDebt }: AdjustAccountRequest,
): Promise<Changed<AdjustAccountResponse>> {
  const asked = { accountId, amountMicros, reference, reason, refundOf, intoDebt };
  const { kind, booked, before, after } = await adjustAccount(tx, asked);
  return {
    response: { accountId, kind, bookedBefore: !booked, balanceMicros: after },
    audit: {
      accountId,
      subject: refundOf ?? accountId,
      before: { balance_usd: microsToUsd(before) },
      after: {
        balance_usd: microsToUsd(after),
        ...{ kind, usd: microsToUsd(amountMicros), reference, reason: reason.trim(), booked },
      },
    },
  };
}

export async function keyCreated(
  tx: Transaction,
  { accountId, name, rules }: CreateKeyRequest,
): Promise<Changed<CreateKeyResponse>> {
  const response = await createKey(tx, accountId, { name, rules });
  const named = name === undefined ? {} : { name: name.trim() };
  const after = { valid: true, ...named, ...rulesOf(await keyAfter(tx, response.keyId)) };
  return { response, audit: { accountId, subject: response.keyId, after } };
}

export async function keySet(
  tx: Transaction,
  { keyId, rules }: SetKeyRequest,
): Promise<Changed<SetKeyResponse>> {
  await lockKey(tx, keyId);
  const before = await keyAfter(tx, keyId);
  const key = await setKey(tx, keyId, rules);
  const audit = { accountId: key.accountId, subject: keyId, before: rulesOf(before), after: rulesOf(key) };
  return { response: { key }, audit };
}

async function lockKey(tx: Transaction, keyId: string): Promise<void> {
  if (isStorable(keyId)) await tx`select 1 from api_keys where id = ${keyId} for no key update`;
}

/** Returns the rules of a key for the audit. */
function rulesOf(key: KeyView) {
  return {
    scopes: key.scopes,
    expires_at: key.expiresAt ?? null,
    allowed_addresses: key.allowedAddresses,
    cap_day_usd: key.capDayMicros === undefined ? null : microsToUsd(key.capDayMicros),
    cap_month_usd: key.capMonthMicros === undefined ? null : microsToUsd(key.capMonthMicros),
  };
}

async function keyBefore(tx: Transaction, keyId: string) {
  const [row] = isStorable(keyId)
    ? await tx<{ per_minute: number; revoked_at: Date | null }[]>`
        select per_minute, revoked_at from api_keys where id = ${keyId} for no key update`
    : [];
  return row && { per_minute: row.per_minute, revoked_at: row.revoked_at?.toISOString() ?? null };
}

export async function keyRevoked(
  tx: Transaction,
  { keyId }: RevokeKeyRequest,
): Promise<Changed<RevokeKeyResponse>> {
  const before = await keyBefore(tx, keyId);
  const key = await revokeKey(tx, keyId);
  const { accountId, perMinute, revokedAt } = key;
  const after = { per_minute: perMinute, revoked_at: revokedAt };
  return { response: { key }, audit: { accountId, subject: keyId, before, after } };
}

export async function keyLimited(
  tx: Transaction,
  { keyId, perMinute }: LimitKeyRequest,
): Promise<Changed<LimitKeyResponse>> {
  const before = await keyBefore(tx, keyId);
  const key = await limitKey(tx, keyId, perMinute);
  const after = { per_minute: key.perMinute, revoked_at: key.revokedAt ?? null };
  return { response: { key }, audit: { accountId: key.accountId, subject: keyId, before, after } };
}

/** A person who has seen the secret can sign as this service, so showing it is recorded too. */
export async function secretShown(
  tx: Transaction,
  { accountId }: ShowSecretRequest,
): Promise<Changed<ShowSecretResponse>> {
  await requireAccount(tx, accountId);
  const had = await tx`select 1 from webhook_secrets where account_id = ${accountId} and retires_at is null`;
  const response = await showSecret(tx, accountId);
  const after = { shown: true, made: had.length === 0 };
  return { response, audit: { accountId, subject: 'webhook secret', after } };
}

export async function secretRotated(
  tx: Transaction,
  { accountId, now }: RotateSecretRequest,
): Promise<Changed<RotateSecretResponse>> {
  const secret = now ? await replaceSecretNow(tx, accountId) : await rotateSecret(tx, accountId);
  const after = now ? { replaced: true } : { next_made: true };
  return { response: { secret }, audit: { accountId, subject: 'webhook secret', after } };
}

export async function secretPromoted(
  tx: Transaction,
  { accountId }: PromoteSecretRequest,
): Promise<Changed<PromoteSecretResponse>> {
  const secret = await promoteSecret(tx, accountId);
  return { response: { secret }, audit: { accountId, subject: 'webhook secret', after: { promoted: true } } };
}

export async function deliveryReplayed(
  tx: Transaction,
  { deliveryId }: ReplayDeliveryRequest,
): Promise<Changed<DeliveryView>> {
  const [row] = isStorable(deliveryId)
    ? await tx<{ account_id: string; state: string; attempts: number }[]>`
        select account_id, state, attempts from deliveries where id = ${deliveryId} for no key update`
    : [];
  const response = await replayDelivery(tx, deliveryId);
  const before = row && { state: row.state, attempts: row.attempts };
  const after = { state: response.state, attempts: 0 };
  return { response, audit: { accountId: row?.account_id, subject: deliveryId, before, after } };
}

export async function sessionEnded(
  tx: Transaction,
  { sessionId }: EndSessionRequest,
): Promise<Changed<SessionRow>> {
  const response = await requestEnd(tx, sessionId);
  const before = { state: response.state, streamed_ms: Number(response.streamed_ms) };
  const audit = {
    accountId: response.account_id,
    subject: sessionId,
    before,
    after: { end_requested: true },
  };
  return { response, audit, endedSession: sessionId };
}

export async function capabilitySwitched(
  tx: Transaction,
  { capability, on }: SwitchCapabilityRequest,
): Promise<Changed<SwitchCapabilityResponse>> {
  const [before] = isStorable(capability)
    ? await tx<{ switched_on: boolean }[]>`
        select switched_on from capabilities where name = ${capability} for no key update`
    : [];
  const enabled = await switchCapability(tx, capability, on);
  const audit = { subject: capability, before, after: { switched_on: on } };
  return { response: { capability, enabled }, audit };
}

export async function limitsSet(
  tx: Transaction,
  { accountId, ...limits }: SetLimitsRequest,
): Promise<Changed<SetLimitsResponse>> {
  const own = async () => {
    const [row] = await tx<Record<string, number | null>[]>`
      select jobs_in_flight_limit as jobs_in_flight, live_sessions_limit as live_sessions,
             stored_mb_limit as stored_mb, daily_mb_limit as daily_mb,
             failed_slot_seconds_limit as failed_slot_seconds
      from accounts where id = ${accountId} for no key update`;
    return row;
  };
  await requireAccount(tx, accountId);
  const before = await own();
  const set = await setLimits(tx, accountId, limits);
  const audit = { accountId, subject: accountId, before, after: await own() };
  return { response: { accountId, ...set }, audit };
}

export async function settingSet(
  tx: Transaction,
  { setting }: SetSettingRequest,
): Promise<Changed<SetSettingResponse>> {
  if (!setting) throw new ApiError('invalid_input', 'A setting is needed.');
  const { name, value } = setting;
  const before = await setSetting(tx, { name, value });
  const shown = (of: bigint | undefined) => ({ value: of === undefined ? null : Number(of) });
  const audit = { subject: name, before: shown(before.value), after: shown(value) };
  return { response: { setting: { name, value } }, audit };
}

export async function mediaDeleted(
  tx: Transaction,
  { jobId, fileKey, inputs }: DeleteMediaRequest,
  actor: string,
): Promise<Changed<DeleteMediaResponse>> {
  if ((jobId === undefined) === (fileKey === undefined))
    throw new ApiError('invalid_input', 'Either a job or an upload is named.');
  const remover = { by: 'admin', actor } as const;
  const removed =
    jobId === undefined
      ? await removeUpload(tx, { fileKey: fileKey ?? '', accountId: undefined }, remover)
      : await removeJobMedia(tx, { jobId, accountId: undefined, inputs }, remover);
  const { objectKeys, accountId, ...response } = removed;
  const after = {
    output_deleted: response.outputDeleted,
    deleted_inputs: response.deletedInputs,
    kept_inputs: response.keptInputs,
  };
  return { response, objectKeys, audit: { accountId, subject: jobId ?? fileKey ?? '', after } };
}
