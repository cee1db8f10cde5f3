import { setTimeout as delay } from 'node:timers/promises';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import { startTcpProxy, type TcpProxy } from '@semblance/testkit/common/tcp-proxy';
import { startTestSystem, type TestSystem, untilTrue } from '@semblance/testkit/control-plane/control-plane';
import { openSession, told } from '@semblance/testkit/control-plane/sessions';
import { testPostgres } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** Longer than a machine stands still; otherwise the report would come too late. */
const GRACE_MS = 7_000;

let system: TestSystem;
let line: TcpProxy;

beforeAll(async () => {
  const pg = await testPostgres();
  const url = new URL(pg.url);
  line = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  url.port = String(line.port);
  system = await startTestSystem(
    // Sessions are checked again as soon as the database is back.
    { sessions: { graceMs: GRACE_MS, sweepEveryMs: 200 } },
    { pg: { url: url.href, close: pg.close } },
  );
  // No session may end for the silence of its gateway, however long the machine stands still.
  await system.database.sql`update settings set session_report_timeout_seconds = 120`;
});
afterAll(async () => {
  line.set('open');
  await system.close();
  await line.close();
});

const ask = () => system.client.ask;

/** Returns a session with a reported second of streaming. */
async function streaming() {
  const { admin, asAdmin, control } = system.client;
  const { accountId } = await asAdmin(admin.createAccount.bind(admin), {
    name: 'test',
    balanceMicros: 1_000_000n,
  });
  const id = await openSession(system.database.sql, accountId);
  await system.database.sql`
    update sessions set state = 'connected', connection_id = 'one', connected_at = now(), reported_at = now() where id = ${id}`;
  await system.kube.create<LiveSession>(LIVESESSION_RESOURCE, {
    metadata: { name: id, namespace: system.kubernetes.namespace },
    spec: {
      capability: 'voice',
      agent: 'agent-1',
      incarnation: 'one',
      account: accountId,
      maxDurationSeconds: 60,
    },
  });
  await ask()(control.reportSessions.bind(control), { reports: [told(id, 1_000)] });
  return id;
}

async function endOf(id: string) {
  const [row] = await system.database.sql`
    select reason, charged_micros from sessions where id = ${id} and ended_at is not null`;
  return row;
}

const setEnded = (name: string) =>
  system.kube.mergePatch<LiveSession>(
    LIVESESSION_RESOURCE,
    { name, namespace: system.kubernetes.namespace },
    { status: { phase: 'Ended', reason: 'render_failed' } },
    { subresource: 'status' },
  );

test.each(['refuse', 'hang'] as const)(
  'what was streamed while the database was away (%s) is billed: the last report has its time when it is back',
  async (mode) => {
    const [reported, unreported] = [await streaming(), await streaming()];
    line.set(mode);
    await Promise.all([setEnded(reported), setEnded(unreported)]);
    await delay(GRACE_MS + 1_000);
    line.set('open');
    await delay(1_000);
    const { control } = system.client;
    const last = told(reported, 9_000, { ended: true, reason: 'render_failed' });
    const telling = () => ask()(control.reportSessions.bind(control), { reports: [last] }).catch(() => {});
    await untilTrue(async () => (await telling()) !== undefined, 'the report is taken');
    expect(await endOf(reported)).toEqual({ reason: 'render_failed', charged_micros: 9_000n });
    expect(await endOf(unreported)).toBeUndefined();
    // A session without further reports does not wait for ever.
    await untilTrue(async () => (await endOf(unreported)) !== undefined, 'it is settled');
    expect(await endOf(unreported)).toEqual({ reason: 'render_failed', charged_micros: 1_000n });
  },
);
