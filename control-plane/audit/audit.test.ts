import { Metadata } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import { AdminServiceClient, AdminServiceService } from '@semblance/proto/semblance/admin/v1/admin';
import {
  makeAccount,
  photoSwap,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { flatRate } from '@semblance/testkit/control-plane/rates';
import { openSession } from '@semblance/testkit/control-plane/sessions';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ACTOR_KEY } from './actor.ts';

const VOICE = {
  id: 'test-voice',
  name: 'Test',
  description: 'A voice of a test.',
  pitch_hz: { low: 100, high: 150 },
  formant_shift: 1.1,
};

let system: TestSystem;
let admin: AdminServiceClient;

beforeAll(async () => {
  system = await startTestSystem();
  admin = createClient(AdminServiceClient, `127.0.0.1:${system.plane.port}`);
});
afterAll(async () => {
  admin.close();
  await system.close();
});

async function invoke<Q, A>(
  method: Parameters<typeof call<Q, A>>[0],
  request: Q,
  actor = 'Ada Löv',
): Promise<A> {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${system.adminToken}`);
  metadata.set(ACTOR_KEY, encodeURIComponent(actor));
  return call(method, request, { timeoutMs: 25_000, metadata, requestId: 'request-1' });
}

async function count(): Promise<number> {
  const [row] = await system.database.sql<{ n: bigint }[]>`select count(*) as n from audit`;
  return Number(row?.n);
}

/**
 * A request of every method that is carried out, and whether it changes anything. A new method must be added here.
 */
async function requests() {
  const account = await makeAccount(system);
  const { accountId, keyId } = account;
  const { fileKey } = await upload(system, account.caller);
  const { control, ask } = system.client;
  const { id: jobId } = await ask(control.submitJob.bind(control), {
    ...photoSwap(account.caller, fileKey),
    callbackUrl: 'https://hook.invalid/',
  });
  await succeed(system, await untilRenderJob(system, jobId));
  await untilJob(system, account.caller, jobId, ({ status }) => status === 'succeeded');
  const sessionId = await openSession(system.database.sql, accountId);
  const range = {};
  const [{ id: coming = 0n } = {}] = await system.database.sql<{ id: bigint }[]>`
    insert into rates_to_come (capability, unit, rates, minimum_micros, hold_milli_units, starts_at)
    values ('voice', 'minute', '[{"when": {}, "rate_micros": 1}]', 0, 1000, '2999-01-01') returning id`;
  const reads = {
    ShowAccount: () => invoke(admin.showAccount.bind(admin), { accountId }),
    ListAccounts: () => invoke(admin.listAccounts.bind(admin), { search: 'a', limit: 0 }),
    ListKeys: () => invoke(admin.listKeys.bind(admin), { accountId }),
    ListDeliveries: () => invoke(admin.listDeliveries.bind(admin), { accountId, limit: 0 }),
    ListUsage: () => invoke(admin.listUsage.bind(admin), { accountId, range, limit: 1 }),
    SummarizeUsage: () => invoke(admin.summarizeUsage.bind(admin), { accountId, range }),
    SummarizeAccounts: () => invoke(admin.summarizeAccounts.bind(admin), { month: '', after: '', limit: 0 }),
    ListJobs: () => invoke(admin.listJobs.bind(admin), { accountId, limit: 0 }),
    ShowJob: () => invoke(admin.showJob.bind(admin), { jobId }),
    ShowCapacity: () => invoke(admin.showCapacity.bind(admin), {}),
    ListCapabilities: () => invoke(admin.listCapabilities.bind(admin), {}),
    ShowCaps: () => invoke(admin.showCaps.bind(admin), { accountId }),
    ShowLimits: () => invoke(admin.showLimits.bind(admin), { accountId }),
    ListSettings: () => invoke(admin.listSettings.bind(admin), {}),
    ListVoices: () => invoke(admin.listVoices.bind(admin), {}),
    ListAudit: () =>
      invoke(admin.listAudit.bind(admin), { accountId, from: undefined, to: undefined, limit: 0 }),
    ListSessions: () => invoke(admin.listSessions.bind(admin), { accountId, open: false }),
    ListRates: () => invoke(admin.listRates.bind(admin), { accountId }),
    PreviewRates: () =>
      invoke(admin.previewRates.bind(admin), {
        change: flatRate({ capability: 'voice', accountId, rateMicros: 6n, minimumMicros: 0n }),
      }),
    ListMedia: () => invoke(admin.listMedia.bind(admin), { accountId, limit: 0 }),
    ExportAudit: () => invoke(admin.exportAudit.bind(admin), { after: 0n }),
    ListAdminTokens: () => invoke(admin.listAdminTokens.bind(admin), {}),
  };
  const token = { name: newId('t-'), role: 'support', lifetimeSeconds: 3_600n };
  let tokenId = '';
  const writes = {
    CreateAdminToken: async () => {
      const made = await invoke(admin.createAdminToken.bind(admin), token);
      tokenId = made.token?.tokenId ?? '';
      return made;
    },
    RotateAdminToken: () => invoke(admin.rotateAdminToken.bind(admin), { tokenId }),
    RevokeAdminToken: () => invoke(admin.revokeAdminToken.bind(admin), { tokenId }),
    CreateAccount: () => invoke(admin.createAccount.bind(admin), { name: 'Grace', balanceMicros: 5n }),
    TopUpAccount: () =>
      invoke(admin.topUpAccount.bind(admin), { accountId, amountMicros: 1_000_000n, reference: 'invoice 1' }),
    AdjustAccount: () =>
      invoke(admin.adjustAccount.bind(admin), {
        ...{ accountId, amountMicros: -2_500n, reference: 'note 1', reason: 'Too much.', intoDebt: false },
      }),
    CreateKey: () => invoke(admin.createKey.bind(admin), { accountId }),
    SetKey: () => invoke(admin.setKey.bind(admin), { keyId, rules: { scopes: ['read'] } }),
    SetCaps: () => invoke(admin.setCaps.bind(admin), { accountId, caps: { capDayMicros: 1n } }),
    LimitKey: () => invoke(admin.limitKey.bind(admin), { keyId, perMinute: 7 }),
    RevokeKey: () => invoke(admin.revokeKey.bind(admin), { keyId }),
    ShowSecret: () => invoke(admin.showSecret.bind(admin), { accountId }),
    RotateSecret: () => invoke(admin.rotateSecret.bind(admin), { accountId, now: false }),
    PromoteSecret: () => invoke(admin.promoteSecret.bind(admin), { accountId }),
    ReplayDelivery: () =>
      invoke(admin.replayDelivery.bind(admin), { deliveryId: jobId.replace('job-', 'dlv-') }),
    SwitchCapability: () => invoke(admin.switchCapability.bind(admin), { capability: 'voice', on: true }),
    SetLimits: () =>
      invoke(admin.setLimits.bind(admin), { accountId, jobsInFlight: 3, liveSessions: undefined }),
    SetRates: () =>
      invoke(
        admin.setRates.bind(admin),
        flatRate({
          capability: 'voice',
          accountId,
          rateMicros: 5n,
          minimumMicros: 0n,
        }),
      ),
    ResetRates: () => invoke(admin.resetRates.bind(admin), { accountId, capability: 'voice' }),
    CancelRates: () => invoke(admin.cancelRates.bind(admin), { id: coming }),
    SetSetting: () =>
      invoke(admin.setSetting.bind(admin), {
        setting: { name: 'upload_retention_seconds', value: 86_400n },
      }),
    EndSession: () => invoke(admin.endSession.bind(admin), { sessionId }),
    AddVoice: () => invoke(admin.addVoice.bind(admin), { definitionJson: JSON.stringify(VOICE) }),
    RemoveVoice: () => invoke(admin.removeVoice.bind(admin), { voiceId: VOICE.id }),
    DeleteMedia: () => invoke(admin.deleteMedia.bind(admin), { jobId, fileKey: undefined, inputs: true }),
  };
  return { accountId, keyId, jobId, fileKey, reads, writes };
}

test('every method of the admin service that changes anything leaves one row, and no other leaves any', async () => {
  const { reads, writes } = await requests();
  const known = [...Object.keys(reads), ...Object.keys(writes)].sort();
  const methods = Object.values(AdminServiceService).map(({ path }) => path.split('/').at(-1));
  expect(known).toEqual(methods.sort());
  for (const [method, ask] of Object.entries(reads)) {
    const before = await count();
    await ask();
    expect(await count(), method).toBe(before);
  }
  const secrets: string[] = [];
  for (const [method, ask] of Object.entries(writes)) {
    const before = await count();
    const answer = (await ask()) as { apiKey?: string; secret?: string };
    secrets.push(...[answer.apiKey, answer.secret].filter((secret) => secret !== undefined));
    expect(await count(), method).toBe(before + 1);
    const [row] = await system.database.sql`select * from audit order by seq desc limit 1`;
    expect(row, method).toMatchObject({
      action: method,
      actor: 'bootstrap',
      role: 'owner',
      token_id: null,
      stated: 'Ada Löv',
      request_id: 'request-1',
    });
    expect(row?.subject, method).not.toBe('');
    expect(row?.after, method).not.toBeNull();
  }
  expect(secrets.length).toBe(7);
  const written = JSON.stringify(await system.database.sql`select before, after, subject from audit`);
  for (const secret of secrets) expect(written).not.toContain(secret);
  expect(written).not.toContain(system.adminToken);
});

describe('the audit', () => {
  test('says what was and what is', async () => {
    const { accountId, keyId, writes } = await requests();
    await writes.LimitKey();
    await writes.TopUpAccount();
    await writes.SetLimits();
    const list = async (more: object = {}) =>
      (
        await invoke(admin.listAudit.bind(admin), {
          accountId,
          from: undefined,
          to: undefined,
          limit: 3,
          ...more,
        })
      ).entries.map((entry) => ({
        action: entry.action,
        subject: entry.subject,
        before: JSON.parse(entry.beforeJson ?? 'null'),
        after: JSON.parse(entry.afterJson ?? 'null'),
      }));
    const others = { stored_mb: null, daily_mb: null, failed_slot_seconds: null };
    expect(await list()).toEqual([
      {
        action: 'SetLimits',
        subject: accountId,
        before: { jobs_in_flight: null, live_sessions: null, ...others },
        after: { jobs_in_flight: 3, live_sessions: null, ...others },
      },
      {
        action: 'TopUpAccount',
        subject: accountId,
        before: { balance_usd: 9.96 },
        after: { balance_usd: 10.96, usd: 1, reference: 'invoice 1', booked: true },
      },
      {
        action: 'LimitKey',
        subject: keyId,
        before: { per_minute: 1_000_000, revoked_at: null },
        after: { per_minute: 7, revoked_at: null },
      },
    ]);
    const now = new Date().toISOString();
    expect(await list({ limit: 1 })).toHaveLength(1);
    expect(await list({ from: now })).toEqual([]);
    expect((await list({ to: now })).length).toBe(3);
    for (const no of ['yesterday', '2026-02-30', '2026-01-31T12:00:00', ''])
      await expect(list({ from: no }), no).rejects.toThrow('"from" must be');
    expect((await list({ from: '0000-01-01', to: '9999-12-31T23:59:59Z' })).length).toBe(3);
    await expect(list({ limit: 1_001 })).rejects.toThrow('from 1 to 1000');
  });

  test('a change that is refused leaves none, and none without the token', async () => {
    const before = await count();
    const refused = [
      () => invoke(admin.createKey.bind(admin), { accountId: 'acct-none' }),
      () => invoke(admin.switchCapability.bind(admin), { capability: 'nothing\0', on: true }),
      () => invoke(admin.revokeKey.bind(admin), { keyId: 'key-none' }),
      () => invoke(admin.createAccount.bind(admin), { name: 'a', balanceMicros: 0n }, 'Ada\u001b[2J'),
      () => invoke(admin.createAccount.bind(admin), { name: 'a\u009b2Jb', balanceMicros: 0n }),
      () => invoke(admin.createAccount.bind(admin), { name: 'a\nb', balanceMicros: 0n }),
      () =>
        invoke(admin.topUpAccount.bind(admin), {
          accountId: 'acct-none',
          amountMicros: 1n,
          reference: 'x\u202ey',
        }),
      () => invoke(admin.setSetting.bind(admin), { setting: { name: 'only_row', value: 0n } }),
      () =>
        invoke(admin.setSetting.bind(admin), { setting: { name: 'upload_retention_seconds', value: 1n } }),
      () => invoke(admin.setSetting.bind(admin), { setting: { name: 'link_seconds', value: undefined } }),
      () => invoke(admin.setSetting.bind(admin), { setting: { name: 'link_seconds', value: 2n ** 40n } }),
      () => invoke(admin.replayDelivery.bind(admin), { deliveryId: 'dlv-none' }),
      () => invoke(admin.deleteMedia.bind(admin), { jobId: undefined, fileKey: undefined, inputs: false }),
      () => invoke(admin.addVoice.bind(admin), { definitionJson: JSON.stringify({ ...VOICE, id: '' }) }),
      () => invoke(admin.removeVoice.bind(admin), { voiceId: 'bass-narrator' }),
      () => invoke(admin.removeVoice.bind(admin), { voiceId: 'none\0' }),
      () => call(admin.createKey.bind(admin), { accountId: 'acct-none' }, { timeoutMs: 25_000 }),
    ];
    for (const refusal of refused)
      await expect(refusal()).rejects.toThrow(/INVALID_ARGUMENT|NOT_FOUND|UNAUTHENTICATED/);
    expect(await count()).toBe(before);
  });

  test('is never changed', async () => {
    const { sql } = system.database;
    await expect(sql`update audit set actor = 'nobody'`).rejects.toThrow('never changed');
    await expect(sql`delete from audit`).rejects.toThrow('never changed');
    await expect(sql`truncate audit`).rejects.toThrow('never changed');
  });

  test('keeps whoever is stated, whatever that is', async () => {
    for (const [actor, kept] of [
      ['', 'unknown'],
      ['x'.repeat(500), 'x'.repeat(200)],
      [' Ada ', 'Ada'],
      [`${'x'.repeat(199)}😀`, `${'x'.repeat(199)}\ufffd`],
    ] as const) {
      const { accountId } = await invoke(
        admin.createAccount.bind(admin),
        { name: 'x', balanceMicros: 0n },
        actor,
      );
      const [row] = await system.database
        .sql`select actor, stated from audit where account_id = ${accountId}`;
      expect(row).toEqual({ actor: 'bootstrap', stated: kept });
    }
  });
});
