import { LEASE_RESOURCE } from '@semblance/common/kube/index';
import {
  LIVESESSION_RESOURCE,
  type LiveSession,
  type LiveSessionStatus,
} from '@semblance/crds/gen/livesessions';
import type { AllocateRequest, AllocateResponse } from '@semblance/proto/semblance/operator/v1/operator';
import {
  connectTo,
  makeAccount,
  startTestSystem,
  type TestSystem,
  untilTrue,
} from '@semblance/testkit/control-plane/control-plane';
import { refusing, SLOT, startScriptedOperator } from '@semblance/testkit/control-plane/scripted-operator';
import { offerSessions } from '@semblance/testkit/control-plane/sessions';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ADDRESS_ANNOTATION, OPERATOR_LEASE } from './allocator.ts';
import { sha256 } from './order.ts';

const TIMING = { graceMs: 400, sweepEveryMs: 300, expireEveryMs: 100, patienceMs: 10_000 };

let system: TestSystem;
let operator: Awaited<ReturnType<typeof startScriptedOperator>>;
beforeAll(async () => {
  [system, operator] = await Promise.all([
    startTestSystem({
      sessions: TIMING,
    }),
    startScriptedOperator(),
  ]);
  await offerSessions(system.database.sql);
  await system.kube.apply(LEASE_RESOURCE, {
    metadata: {
      name: OPERATOR_LEASE,
      namespace: system.kubernetes.namespace,
      annotations: { [ADDRESS_ANNOTATION]: operator.address },
    },
    spec: { holderIdentity: 'scripted' },
  });
});
afterAll(async () => {
  await operator.close();
  await system.close();
});
beforeEach(() => operator.does(bind));

/** As the operator: the LiveSession exists, bound, before the answer. */
async function bind({ sessionId, account, maxDurationSeconds }: AllocateRequest): Promise<AllocateResponse> {
  await system.kube.create(LIVESESSION_RESOURCE, {
    metadata: { name: sessionId, namespace: system.kubernetes.namespace },
    spec: {
      capability: 'voice',
      agent: SLOT.agent,
      incarnation: SLOT.incarnation,
      account,
      maxDurationSeconds,
    },
  });
  await setStatus(sessionId, { phase: 'Bound' });
  return SLOT;
}

const ref = (name: string) => ({ name, namespace: system.kubernetes.namespace });
const setStatus = (name: string, status: LiveSessionStatus) =>
  system.kube.mergePatch<LiveSession>(LIVESESSION_RESOURCE, ref(name), { status }, { subresource: 'status' });
const find = (name: string) => system.kube.find(LIVESESSION_RESOURCE, ref(name));

async function opened(usd = 1, client = system.client) {
  const account = await makeAccount({ client: system.client }, usd);
  const { control, ask } = client;
  const answer = await ask(control.openSession.bind(control), {
    caller: account.caller,
    capability: 'voice',
    durationMinutes: 10,
    prompt: '',
    voiceId: undefined,
  });
  return { ...account, ...answer };
}

async function streaming(streamedMs: number) {
  const session = await opened();
  const { control, ask } = system.client;
  const connected = await ask(control.connectSession.bind(control), {
    sessionId: session.sessionId,
    tokenSha256: sha256(session.sessionToken),
    connectionId: 'one',
  });
  expect(connected).toMatchObject({ agentAddress: SLOT.address, agentIncarnation: SLOT.incarnation });
  expect(await tell(session.sessionId, streamedMs)).toEqual([{ over: false, reason: undefined }]);
  return session;
}

async function tell(sessionId: string, streamedMs: number, ended = false, reason?: string) {
  const { control, ask } = system.client;
  const one = { sessionId, connectionId: 'one', streamedMs: BigInt(streamedMs), ended, reason };
  return (await ask(control.reportSessions.bind(control), { reports: [one] })).verdicts;
}

type Session = Awaited<ReturnType<typeof opened>>;

async function usageOf({ caller }: Session) {
  const { control, ask } = system.client;
  const { entries } = await ask(control.listUsage.bind(control), { caller, range: {}, limit: 10 });
  return entries.map(({ id, status, reason, chargedMicros }) => ({ id, status, reason, chargedMicros }));
}

async function show({ accountId }: Session) {
  const { admin, asAdmin } = system.client;
  return (await asAdmin(admin.showAccount.bind(admin), { accountId })).account;
}

const untilEnded = (session: Session) =>
  untilTrue(
    async () => (await usageOf(session)).every(({ status }) => status === 'succeeded' || status === 'failed'),
    'the session is settled',
  );

test('a session from its opening to its charge', async () => {
  const session = await streaming(2_000);
  expect(session).toMatchObject({ maxDurationSeconds: 600, maxCostMicros: 600_000n });
  expect(operator.asked.at(-1)).toMatchObject({ sessionId: session.sessionId, account: session.accountId });
  expect(await show(session)).toMatchObject({
    balanceMicros: 1_000_000n,
    reservedMicros: 600_000n,
    ledgerOk: true,
  });
  const { sessionId: id } = session;
  expect(await usageOf(session)).toEqual([
    { id, status: 'processing', reason: undefined, chargedMicros: 0n },
  ]);
  expect(await tell(id, 4_321, true)).toEqual([{ over: true, reason: undefined }]);
  expect(await usageOf(session)).toEqual([
    { id, status: 'succeeded', reason: undefined, chargedMicros: 4_321n },
  ]);
  expect(await show(session)).toMatchObject({ balanceMicros: 995_679n, reservedMicros: 0n, ledgerOk: true });
});

test('no slot is refused in the words of the operator, and the caller keeps its money and its rate limit', async () => {
  operator.does(refusing('capacity_warming'));
  const { caller, accountId } = await makeAccount(system, 1, 3);
  const { control, ask } = system.client;
  const wish = { caller, capability: 'voice', durationMinutes: 1, prompt: '', voiceId: undefined };
  for (const code of ['capacity_warming', 'capacity_warming', 'capacity_warming', 'rate_limited'])
    await expect(ask(control.openSession.bind(control), wish)).rejects.toMatchObject({ code });
  const { admin, asAdmin } = system.client;
  const { account } = await asAdmin(admin.showAccount.bind(admin), { accountId });
  expect(account).toMatchObject({ balanceMicros: 1_000_000n, reservedMicros: 0n, ledgerOk: true });
});

test('there are no voices yet; asking for them needs a key', async () => {
  const { caller } = await makeAccount(system);
  const { control, ask } = system.client;
  expect(await ask(control.listVoices.bind(control), { caller })).toEqual({ voices: [] });
  await expect(ask(control.listVoices.bind(control), { caller: undefined })).rejects.toMatchObject({
    code: 'unauthorized',
  });
});

test('a LiveSession that a person deletes takes its session with it, billed as it stands', async () => {
  const session = await streaming(3_000);
  await system.kube.delete(LIVESESSION_RESOURCE, ref(session.sessionId));
  await untilEnded(session);
  expect(await usageOf(session)).toMatchObject([
    { status: 'succeeded', reason: 'cancelled', chargedMicros: 3_000n },
  ]);
  expect(await tell(session.sessionId, 9_000)).toEqual([{ over: true, reason: 'cancelled' }]);
  expect(await show(session)).toMatchObject({ balanceMicros: 997_000n, reservedMicros: 0n, ledgerOk: true });
});

test('a LiveSession that ended, with nobody to report it, ends its session for its reason', async () => {
  const [lost, unused] = [await streaming(1_500), await opened()];
  await setStatus(lost.sessionId, { phase: 'Ended', reason: 'render_failed' });
  await setStatus(unused.sessionId, { phase: 'Ended', reason: 'no_stream' });
  await Promise.all([untilEnded(lost), untilEnded(unused)]);
  expect(await usageOf(lost)).toMatchObject([
    { status: 'succeeded', reason: 'render_failed', chargedMicros: 1_500n },
  ]);
  expect(await usageOf(unused)).toMatchObject([{ status: 'failed', reason: 'no_stream', chargedMicros: 0n }]);
  // They are kept for inspection.
  expect([await find(lost.sessionId), await find(unused.sessionId)]).not.toContain(undefined);
});

test('a slot whose session has ended is given back, by whichever side it was forgotten', async () => {
  const session = await streaming(1_000);
  await tell(session.sessionId, 1_000, true);
  await untilTrue(async () => (await find(session.sessionId)) === undefined, 'the LiveSession is deleted');
  expect(await usageOf(session)).toMatchObject([
    { status: 'succeeded', reason: undefined, chargedMicros: 1_000n },
  ]);
});

test('a slot whose session ended before the clock was set back is given back, too', async () => {
  const session = await streaming(1_000);
  await tell(session.sessionId, 1_000, true);
  await system.database.sql`
    update sessions set ended_at = ended_at + interval '1 hour' where id = ${session.sessionId}`;
  await untilTrue(async () => (await find(session.sessionId)) === undefined, 'the LiveSession is deleted');
});

test('a session that nobody connects to, and one that nobody reports, end by themselves', async () => {
  const { sql } = system.database;
  // Before it connects: it keeps the settings from then.
  await sql`update settings set session_report_seconds = 1, session_report_timeout_seconds = 5`;
  const [waits, silent] = [await opened(), await streaming(700)];
  await sql`update sessions set connect_by = now() where id = ${waits.sessionId}`;
  await Promise.all([untilEnded(waits), untilEnded(silent)]);
  await sql`update settings set session_report_seconds = 2, session_report_timeout_seconds = 15`;
  expect(await usageOf(waits)).toMatchObject([{ status: 'failed', reason: 'no_stream', chargedMicros: 0n }]);
  expect(await usageOf(silent)).toMatchObject([
    { status: 'succeeded', reason: 'timed_out', chargedMicros: 700n },
  ]);
  await untilTrue(
    async () => !(await find(waits.sessionId)) && !(await find(silent.sessionId)),
    'both slots are given back',
  );
});

test('the owner of the service sees sessions and ends one', async () => {
  const session = await streaming(2_500);
  const { sessionId, accountId } = session;
  const { admin, asAdmin } = system.client;
  const list = async (open: boolean) =>
    (await asAdmin(admin.listSessions.bind(admin), { accountId, open })).sessions;
  const view = { sessionId, accountId, capability: 'voice', agent: SLOT.agent, maxDurationSeconds: 600 };
  expect(await list(true)).toMatchObject([
    { ...view, state: 'connected', streamedMs: 2_500n, reason: undefined },
  ]);
  const end = (id: string) => asAdmin(admin.endSession.bind(admin), { sessionId: id });
  expect((await end(sessionId)).session).toMatchObject({ state: 'connected' });
  await untilTrue(async () => (await find(sessionId)) === undefined, 'its LiveSession is deleted');
  await untilEnded(session);
  expect(await list(true)).toEqual([]);
  expect(await list(false)).toMatchObject([
    { ...view, state: 'ended', reason: 'cancelled', chargedMicros: 2_500n },
  ]);
  await expect(end(sessionId)).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(end('ses-none')).rejects.toMatchObject({ code: 'not_found' });
  // A session whose end was requested accepts no connection.
  const waiting = await opened();
  operator.does(bind);
  await system.database.sql`update sessions set end_requested_at = now() where id = ${waiting.sessionId}`;
  const { control, ask } = system.client;
  const connecting = ask(control.connectSession.bind(control), {
    sessionId: waiting.sessionId,
    tokenSha256: sha256(waiting.sessionToken),
    connectionId: 'one',
  });
  await expect(connecting).rejects.toMatchObject({ code: 'not_found' });
  await untilEnded(waiting);
  expect(await usageOf(waiting)).toMatchObject([{ status: 'failed', reason: 'cancelled' }]);
});

/** From here on another control plane does the work. */
async function serveAnew(more: Parameters<TestSystem['startPlane']>[0] = {}) {
  const plane = await system.startPlane(more);
  system.client.control.close();
  system.client.admin.close();
  Object.assign(system.client, connectTo(plane.port, system.adminToken));
  return plane;
}

// For these two last tests, a new control plane does the work.
let next: Awaited<ReturnType<typeof serveAnew>>;
test('what happens while no control plane runs is found by the next', async () => {
  const [deleted, ended, goesOn] = [await streaming(1_000), await streaming(2_000), await streaming(3_000)];
  await system.plane.close();
  await system.kube.delete(LIVESESSION_RESOURCE, ref(deleted.sessionId));
  await setStatus(ended.sessionId, { phase: 'Ended', reason: 'session_limit_reached' });
  next = await serveAnew();
  await Promise.all([untilEnded(deleted), untilEnded(ended)]);
  expect(await usageOf(deleted)).toMatchObject([{ reason: 'cancelled', chargedMicros: 1_000n }]);
  expect(await usageOf(ended)).toMatchObject([{ reason: 'session_limit_reached', chargedMicros: 2_000n }]);
  expect(await usageOf(goesOn)).toMatchObject([{ status: 'processing' }]);
  expect(await tell(goesOn.sessionId, 4_000, true)).toEqual([{ over: true, reason: undefined }]);
  for (const session of [deleted, ended, goesOn])
    expect(await show(session)).toMatchObject({ ledgerOk: true });
});

test('the last report of the gateway, if it comes in time, is what counts', async () => {
  await next.close();
  // A grace that no pause of a busy machine exceeds.
  await serveAnew({ sessions: { ...TIMING, graceMs: 60_000 } });
  const session = await streaming(3_000);
  await system.kube.delete(LIVESESSION_RESOURCE, ref(session.sessionId));
  await tell(session.sessionId, 3_400, true, 'cancelled');
  await untilEnded(session);
  expect(await usageOf(session)).toMatchObject([{ reason: 'cancelled', chargedMicros: 3_400n }]);
});
