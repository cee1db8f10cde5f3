import { testKube } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLogger } from '../logging.ts';
import { boundClient } from './bound-client.ts';
import { createKubeClient, type KubeClient } from './client.ts';
import { createEventRecorder } from './event-recorder.ts';
import { createFence } from './fence.ts';
import { createLeaderElection } from './leader-election.ts';
import { createLeaseKeeper } from './lease.ts';
import { EVENT_RESOURCE, LEASE_RESOURCE } from './resources.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
const logger = silentLogger();

beforeAll(async () => {
  kube = await testKube();
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-test' });
});

afterAll(async () => {
  await client?.close();
  await kube?.close();
});

const get = (name: string) => client.get(LEASE_RESOURCE, { namespace: kube.namespace, name });
const until = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

describe('a kept Lease', () => {
  const keeper = (name: string, holder: string, fenced: string[], more = {}) =>
    createLeaseKeeper({
      client,
      namespace: kube.namespace,
      name,
      holder,
      logger,
      durationSeconds: 40,
      renewEveryMs: 100,
      fenceAfterMs: 30_000,
      onFenced: (reason: string) => fenced.push(reason),
      ...more,
    });

  it('is renewed, and released at the end', async () => {
    const stop = new AbortController();
    const fenced: string[] = [];
    const kept = keeper('kept', 'me', fenced);
    await kept.acquire(stop.signal);
    const first = (await get('kept')).spec;
    expect(first).toMatchObject({ holderIdentity: 'me', leaseDurationSeconds: 40 });
    const running = kept.run(stop.signal);
    await expect.poll(async () => (await get('kept')).spec?.renewTime).not.toBe(first?.renewTime);
    // A change by a person is no reason to stop.
    const ref = { namespace: kube.namespace, name: 'kept' };
    await client.mergePatch(LEASE_RESOURCE, ref, { metadata: { labels: { by: 'hand' } } });
    const { renewTime } = (await get('kept')).spec ?? {};
    await expect.poll(async () => (await get('kept')).spec?.renewTime).not.toBe(renewTime);
    // A deleted Lease is created again.
    await client.delete(LEASE_RESOURCE, ref);
    await expect.poll(async () => (await client.find(LEASE_RESOURCE, ref))?.spec?.holderIdentity).toBe('me');
    stop.abort();
    await running;
    expect((await get('kept')).spec?.holderIdentity).toBe('');
    expect(fenced).toEqual([]);
  });

  it('fences the former process for good when a newer one of its name takes it', async () => {
    const stop = new AbortController();
    const fenced: string[] = [];
    const older = keeper('taken', 'older', fenced);
    await older.acquire(stop.signal);
    const running = older.run(stop.signal);
    const newer = keeper('taken', 'newer', []);
    await newer.acquire(stop.signal);
    await running;
    expect(fenced).toEqual(['the Lease taken is held by newer']);
    expect(older.fenced).toBe(true);
    expect((await get('taken')).spec).toMatchObject({ holderIdentity: 'newer', leaseTransitions: 1 });
    stop.abort();
  });

  it('fences by the clock when the API does not answer, and recovers', async () => {
    const stop = new AbortController();
    const fenced: string[] = [];
    let restored = 0;
    let broken = false;
    const replace: KubeClient['replace'] = (...args) =>
      broken ? Promise.reject(new Error('down')) : client.replace(...args);
    const flaky = { ...client, replace };
    const onRestored = () => restored++;
    const kept = keeper('flaky', 'me', fenced, { client: flaky, fenceAfterMs: 600, onRestored });
    await kept.acquire(stop.signal);
    const running = kept.run(stop.signal);
    broken = true;
    await expect.poll(() => kept.fenced).toBe(true);
    expect(fenced.at(-1)).toBe('not renewed for 600 ms');
    const before = restored;
    broken = false;
    await expect.poll(() => restored).toBeGreaterThan(before);
    await expect.poll(() => kept.fenced).toBe(false);
    stop.abort();
    await running;
  });
});

describe('leader election', () => {
  const candidate = (identity: string, name: string, leaseDurationMs: number) =>
    createLeaderElection({
      client,
      namespace: kube.namespace,
      name,
      identity,
      logger,
      leaseDurationMs,
      renewDeadlineMs: leaseDurationMs * 0.9,
      retryPeriodMs: 200,
    });

  it('has one leader at a time, and the next at once when it ends', async () => {
    const log: string[] = [];
    const candidates = ['a', 'b', 'c'].map((identity) => {
      const stop = new AbortController();
      const election = candidate(identity, 'one-at-a-time', 60_000);
      const running = election.run(stop.signal, async (leadership) => {
        log.push(`${identity} leads`);
        await until(leadership);
        // The next leader must wait until this ends.
        await new Promise((resolve) => setTimeout(resolve, 50));
        log.push(`${identity} ends`);
      });
      return { stop, election, running };
    });
    for (let ended = 0; ended < candidates.length; ended++) {
      const leading = () => candidates.find(({ election }) => election.leading);
      await expect.poll(() => leading() !== undefined).toBe(true);
      const leader = leading();
      leader?.stop.abort();
      await leader?.running;
    }
    expect(log).toHaveLength(6);
    for (let i = 0; i < log.length; i += 2) {
      expect(log[i + 1]).toBe(log[i]?.replace('leads', 'ends'));
    }
    expect((await get('one-at-a-time')).spec?.holderIdentity).toBe('');
  });

  it('hands over by one write, without those who do not end, and lets them write nothing any more', async () => {
    const stop = new AbortController();
    const asked: string[] = [];
    const noting = (what: 'find' | 'get' | 'replace' | 'create') =>
      ({
        [what]: (...args: unknown[]) => {
          if (stop.signal.aborted) asked.push(what);
          return (client[what] as (...all: unknown[]) => Promise<unknown>)(...args);
        },
      }) as Partial<KubeClient>;
    const noted = {
      ...client,
      ...noting('find'),
      ...noting('get'),
      ...noting('replace'),
      ...noting('create'),
    };
    const end = Promise.withResolvers<void>();
    let own: KubeClient | undefined;
    const election = createLeaderElection({
      client: noted,
      namespace: kube.namespace,
      name: 'handed-over',
      identity: 'slow',
      logger,
      leaseDurationMs: 60_000,
      retryPeriodMs: 20_000,
      renewDeadlineMs: 50_000,
      handOverMs: 50,
    });
    let over = false;
    const running = election
      .run(stop.signal, async (leadership) => {
        own = boundClient(client, leadership);
        const metadata = { name: 'by-the-leader', namespace: kube.namespace };
        await own.create(LEASE_RESOURCE, { metadata, spec: {} });
        await end.promise;
      })
      .finally(() => {
        over = true;
      });
    const ref = { namespace: kube.namespace, name: 'by-the-leader' };
    await expect.poll(() => client.find(LEASE_RESOURCE, ref)).toBeDefined();
    stop.abort(new Error('asked to end'));
    await expect.poll(async () => (await get('handed-over')).spec?.holderIdentity).toBe('');
    expect(asked).toEqual(['replace']);
    // The former leader's work continues, but none of its writes takes effect.
    expect(over).toBe(false);
    await expect(
      own?.mergePatch(LEASE_RESOURCE, ref, { metadata: { labels: { late: 'x' } } }),
    ).rejects.toThrow('asked to end');
    await expect(own?.delete(LEASE_RESOURCE, ref)).rejects.toThrow('asked to end');
    expect((await client.get(LEASE_RESOURCE, ref)).metadata.labels).toBeUndefined();
    end.resolve();
    await running;
  });

  it('is given up as it stands, where a renewal that was cut off was carried out', async () => {
    const stop = new AbortController();
    const election = createLeaderElection({
      client,
      namespace: kube.namespace,
      name: 'renewed-unseen',
      identity: 'me',
      logger,
      leaseDurationMs: 60_000,
      retryPeriodMs: 20_000,
      renewDeadlineMs: 50_000,
    });
    const running = election.run(stop.signal, until);
    await expect.poll(() => election.leading).toBe(true);
    const ref = { namespace: kube.namespace, name: 'renewed-unseen' };
    await client.mergePatch(LEASE_RESOURCE, ref, { spec: { renewTime: '2026-01-01T00:00:00.000000Z' } });
    stop.abort();
    await running;
    expect((await get('renewed-unseen')).spec?.holderIdentity).toBe('');
  });

  it('waits out a leader that vanished, and deposes one that lost the Lease', async () => {
    const stop = new AbortController();
    const spec = { holderIdentity: 'vanished', leaseDurationSeconds: 6 };
    await client.create(LEASE_RESOURCE, { metadata: { name: 'vanished', namespace: kube.namespace }, spec });
    const election = candidate('next', 'vanished', 6_000);
    const began = performance.now();
    let terms = 0;
    const running = election.run(stop.signal, async (leadership) => {
      terms++;
      await until(leadership);
    });
    await expect.poll(() => election.leader).toBe('vanished');
    await expect.poll(() => election.leading).toBe(true);
    expect(performance.now() - began).toBeGreaterThanOrEqual(6_000);

    await client.mergePatch(
      LEASE_RESOURCE,
      { namespace: kube.namespace, name: 'vanished' },
      { spec: { holderIdentity: 'usurper' } },
    );
    await expect.poll(() => election.leading).toBe(false);
    await expect.poll(() => election.leading).toBe(true);
    expect(terms).toBe(2);
    stop.abort();
    await running;
  });
});

describe('events', () => {
  it('are written, and repeated ones counted', async () => {
    const stop = new AbortController();
    const recorder = createEventRecorder({ client, component: 'semblance.dev/test', instance: 't', logger });
    const running = recorder.run(stop.signal);
    const regarding = await get('kept');
    const event = { type: 'Warning', reason: 'Retried', action: 'Retry', note: 'é'.repeat(2_000) } as const;
    const find = async () => {
      const { items } = await client.list(EVENT_RESOURCE, { namespace: kube.namespace });
      return items.filter(({ reason }) => reason === 'Retried');
    };
    recorder.event(regarding, event);
    await expect.poll(async () => (await find()).length).toBe(1);
    recorder.event(regarding, event);
    recorder.event(regarding, event);
    await expect.poll(async () => (await find()).map(({ series }) => series?.count)).toEqual([3]);
    const [written] = await find();
    expect(Buffer.byteLength(written?.note ?? '')).toBe(1_023);
    expect(written?.regarding).toMatchObject({ name: 'kept', uid: regarding.metadata.uid });
    // The recorder still writes events that wait when it ends.
    recorder.event(regarding, { ...event, reason: 'Last' });
    stop.abort();
    await running;
    const { items } = await client.list(EVENT_RESOURCE, { namespace: kube.namespace });
    expect(items.map(({ reason }) => reason)).toContain('Last');
  });

  it('that happen again while they are being written are counted too', async () => {
    let isStored = false;
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const slow: KubeClient = {
      ...client,
      async create(...request) {
        const created = await client.create(...request);
        isStored = true;
        await answered;
        return created;
      },
    };
    const stop = new AbortController();
    const recorder = createEventRecorder({
      client: slow,
      component: 'semblance.dev/test',
      instance: 't',
      logger,
    });
    const running = recorder.run(stop.signal);
    const regarding = await get('kept');
    const event = { type: 'Normal', reason: 'Slow', action: 'Write', note: 'n' } as const;
    recorder.event(regarding, event);
    await expect.poll(() => isStored).toBe(true);
    recorder.event(regarding, event);
    recorder.event(regarding, event);
    answer();
    await expect
      .poll(async () => {
        const { items } = await client.list(EVENT_RESOURCE, { namespace: kube.namespace });
        return items.filter(({ reason }) => reason === 'Slow').map(({ series }) => series?.count);
      })
      .toEqual([3]);
    stop.abort();
    await running;
  });
});

it('a fence that a paused process finds closed was closed before it opens again', async () => {
  const log: string[] = [];
  const fence = createFence({
    afterMs: 30,
    onFenced: () => log.push('fenced'),
    onRestored: () => log.push('restored'),
  });
  fence.extend(performance.now());
  // The busy loop blocks the process, so no timer can run.
  for (const end = performance.now() + 60; performance.now() < end; );
  fence.extend(performance.now());
  expect(log).toEqual(['fenced', 'restored']);
  fence.close('for good');
  fence.extend(performance.now());
  expect([log.at(-1), fence.fenced]).toEqual(['fenced', true]);
});
