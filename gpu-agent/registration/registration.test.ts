import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { isKubeError, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { findIsolation } from '@semblance/media/isolation';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { LeaseTimes } from './registration.ts';

/** Renewals are soon visible, and a busy machine causes no fencing. */
const TIMES = { durationSeconds: 60, renewEveryMs: 300, fenceAfterMs: 50_000 };
/**
 * Times for agents that lose their Lease: in the order of the real ones, and longer than a standstill of some
 * seconds.
 */
const FENCING = { durationSeconds: 20, renewEveryMs: 1_000, fenceAfterMs: 8_000 };

let harness: Harness;
beforeAll(async () => {
  harness = await createHarness();
});
afterEach(() => harness.closeAgents());
afterAll(() => harness.close());

const start = (env: NodeJS.ProcessEnv = {}, leaseTimes: LeaseTimes = TIMES) =>
  harness.agent({ env: { SEMBLANCE_AGENT_SLOTS: '1', ...env }, leaseTimes });
const slots = (agent: TestAgent, count: number) =>
  until(async () => (await agent.resource())?.status?.slots === count, `${count} slots announced`);

describe('registering', () => {
  it('says once warm who and where it is, what it can do, and proves that it lives', {
    tags: ['ffmpeg'],
  }, async () => {
    const agent = await start({ SEMBLANCE_AGENT_NODE: 'node-7', SEMBLANCE_AGENT_MEMORY_MIB: '3000' });
    await slots(agent, 1);
    expect((await agent.resource())?.spec).toEqual({ drain: false });
    const isolation = await findIsolation();
    expect((await agent.resource())?.status).toMatchObject({
      incarnation: agent.incarnation,
      address: agent.address,
      node: 'node-7',
      memoryMib: 3_000,
      draining: false,
      engines: [
        {
          name: 'test',
          version: '1',
          capabilities: [
            { name: 'face-swap-image', slots: 1, memoryMib: 64 },
            { name: 'face-swap', slots: 2, memoryMib: 64 },
          ],
        },
      ],
      unavailable: [{ name: 'avatar', message: 'tests have no voice' }],
      unavailableNames: 'avatar',
      mediaIsolation: {
        walls: isolation.stands,
        missing: isolation.missing.map(({ wall, why }) => ({ name: wall, message: why })),
      },
    });
    const first = (await agent.lease())?.spec;
    expect(first).toMatchObject({ holderIdentity: agent.incarnation, leaseDurationSeconds: 60 });
    await until(async () => (await agent.lease())?.spec?.renewTime !== first?.renewTime, 'a renewal');
  });

  it('asks for a Lease of the length in its settings', async () => {
    const agent = await harness.agent({ env: { SEMBLANCE_AGENT_LEASE_SECONDS: '40' } });
    expect((await agent.lease())?.spec?.leaseDurationSeconds).toBe(40);
  });

  it('leaves the wish to drain to people, and heeds it both ways', async () => {
    const agent = await start();
    const ref = { namespace: harness.namespace, name: agent.name };
    await harness.kube.mergePatch(GPUAGENT_RESOURCE, ref, { spec: { drain: true } });
    const refused = () =>
      agent.start(agent.request('ok')).then(
        () => false,
        (error) => error.code === status.FAILED_PRECONDITION,
      );
    await until(refused, 'work is refused');
    // The agent's own writes must not change `spec.drain`.
    await until(async () => (await agent.resource())?.status?.slots === 1, 'slots');
    expect((await agent.resource())?.spec.drain).toBe(true);
    await harness.kube.mergePatch(GPUAGENT_RESOURCE, ref, { spec: { drain: false } });
    await until(async () => !(await refused()), 'work is taken again');
  });

  it('registers again when a person deletes the resource, or its Lease, or writes over its status', async () => {
    const agent = await start();
    await slots(agent, 1);
    const ref = { namespace: harness.namespace, name: agent.name };
    const { uid } = (await agent.resource())?.metadata ?? {};
    await harness.kube.delete(GPUAGENT_RESOURCE, ref);
    await until(async () => {
      const found = await agent.resource();
      return found !== undefined && found.metadata.uid !== uid && found.status?.slots === 1;
    }, 'the resource is back');
    await harness.kube.delete(LEASE_RESOURCE, ref);
    await until(
      async () => (await agent.lease())?.spec?.holderIdentity === agent.incarnation,
      'the Lease is back',
    );
    await harness.kube.mergePatch(
      GPUAGENT_RESOURCE,
      ref,
      { status: { slots: 7 } },
      { subresource: 'status' },
    );
    await slots(agent, 1);
    expect(agent.isOver()).toBe(false);
  });

  it('takes the name over from a process that is gone, at once', async () => {
    const name = 'same-name';
    const first = await start({ SEMBLANCE_AGENT_NAME: name });
    const stale = (await first.lease())?.spec?.holderIdentity;
    await first.close();
    const second = await start({ SEMBLANCE_AGENT_NAME: name });
    expect((await second.lease())?.spec?.holderIdentity).toBe(second.incarnation);
    expect((await second.resource())?.status).toMatchObject({
      incarnation: second.incarnation,
      draining: false,
    });
    expect(stale).toBe(first.incarnation);
  });

  it('gives up when another process takes its name', async () => {
    const env = { SEMBLANCE_AGENT_NAME: 'contested' };
    const first = await start(env);
    const watch = first.watch();
    const request = first.request('slow');
    await first.start(request);
    const second = await start({ ...env, SEMBLANCE_AGENT_WORK_DIR: join(harness.dir, 'elsewhere') });
    await expect(first.failed).rejects.toMatchObject({ code: 'lease_taken' });
    expect((await watch.ended(request.ref)).state).toBe(AttemptState.ATTEMPT_STATE_STOPPED);
    await expect(first.start(first.request('ok'))).rejects.toMatchObject({ code: status.UNAVAILABLE });
    await first.close();
    // The last statement of the first process must not replace that of the second.
    await delay(500);
    expect((await second.resource())?.status?.incarnation).toBe(second.incarnation);
    expect((await second.lease())?.spec?.holderIdentity).toBe(second.incarnation);
  });
});

describe('fencing itself', () => {
  it.each(['refuse', 'hang'] as const)(
    'ends all work before its Lease lapses when the API does "%s"',
    async (mode) => {
      const agent = await start({}, FENCING);
      const watch = agent.watch();
      const request = agent.request('slow');
      await agent.start(request);
      await watch.until(request.ref, ({ stage }) => stage === 'slow');
      const renewed = (await agent.lease())?.spec?.renewTime;
      harness.proxy.set(mode);
      const ended = await watch.ended(request.ref);
      const endedAt = Date.now();
      expect(ended).toMatchObject({
        state: AttemptState.ATTEMPT_STATE_STOPPED,
        failure: { message: expect.stringContaining('lost its lease') },
      });
      // Other processes may take over only this long after the last visible renewal.
      const last = (await agent.lease())?.spec?.renewTime ?? '';
      expect(endedAt).toBeLessThan(Date.parse(last) + FENCING.durationSeconds * 1000);
      // The agent does not end at the first failure, because it tries to renew again.
      expect(endedAt - Date.parse(last)).toBeGreaterThan(FENCING.fenceAfterMs / 2);
      expect(Date.parse(last)).toBeGreaterThanOrEqual(Date.parse(renewed ?? ''));

      const puts = harness.store.puts.length;
      await expect(agent.start(agent.request('ok'))).rejects.toMatchObject({ code: status.UNAVAILABLE });
      expect(await agent.ready()).toMatchObject({ status: 503, text: expect.stringContaining('lease:') });
      expect(harness.store.puts).toHaveLength(puts);

      harness.proxy.set('open');
      await until(
        () =>
          agent.start(agent.request('ok')).then(
            () => true,
            () => false,
          ),
        'works again',
      );
    },
  );

  it('stores nothing once fenced, even what is rendered already', async () => {
    let stopped = false;
    harness.store.on('/held', (request, response) => {
      request.resume();
      // The store answers only after the fence.
      const timer = setInterval(() => stopped && response.writeHead(200).end(), 20);
      response.on('close', () => clearInterval(timer));
    });
    const agent = await start({}, FENCING);
    const watch = agent.watch();
    const request = agent.request('ok', {
      sinks: [{ contentType: 'image/png', url: harness.store.url('/held'), headers: {}, key: 'out/held' }],
    });
    await agent.start(request);
    await watch.until(request.ref, ({ stage }) => stage === 'store');
    harness.proxy.set('refuse');
    expect((await watch.ended(request.ref)).state).toBe(AttemptState.ATTEMPT_STATE_STOPPED);
    stopped = true;
    expect(watch.of(request.ref)?.output).toBeUndefined();
  });

  it('is not registered, and says so, while the API cannot be reached', async () => {
    harness.proxy.set('refuse');
    let started = false;
    const starting = start().then((agent) => {
      started = true;
      return agent;
    });
    await delay(1_500);
    expect(started).toBe(false);
    harness.proxy.set('open');
    const agent = await starting;
    expect(await agent.ready()).toMatchObject({ status: 200 });
  });
});

describe('the process', () => {
  const run = (env: NodeJS.ProcessEnv) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, '../main.ts')], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
    return { child, output: () => output, ended: once(child, 'close') as Promise<[number | null]> };
  };

  it('names every unusable setting and ends', async () => {
    const agent = run({
      SEMBLANCE_AGENT_SLOTS: 'many',
      SEMBLANCE_AGENT_ENGINES: 'builtin,magic',
      SEMBLANCE_AGENT_WORK_DIR: 'relative',
    });
    expect((await agent.ended)[0]).toBe(1);
    for (const name of ['SLOTS', 'ENGINES', 'WORK_DIR'])
      expect(agent.output()).toContain(`SEMBLANCE_AGENT_${name}`);
  });

  it('does not listen everywhere without knowing what to announce', async () => {
    const agent = run({ SEMBLANCE_AGENT_LISTEN: '0.0.0.0:0' });
    expect((await agent.ended)[0]).toBe(1);
    expect(agent.output()).toContain('SEMBLANCE_AGENT_ADVERTISE');
  });

  it('ends with an error and a reason when its name is taken', async () => {
    const env = {
      KUBECONFIG: harness.kubeconfig,
      SEMBLANCE_NAMESPACE: harness.namespace,
      SEMBLANCE_AGENT_NAME: 'process',
      SEMBLANCE_AGENT_SLOTS: '1',
      SEMBLANCE_AGENT_WORK_DIR: join(harness.dir, 'process'),
    };
    const agent = run(env);
    const ref = { namespace: harness.namespace, name: 'process' };
    await until(
      async () => Boolean((await harness.kube.find(GPUAGENT_RESOURCE, ref))?.status?.incarnation),
      'registered',
      90_000,
    );
    for (let written = false; !written; ) {
      const lease = await harness.kube.get(LEASE_RESOURCE, ref);
      const spec = { ...lease.spec, holderIdentity: 'somebody-else' };
      written = await harness.kube.replace(LEASE_RESOURCE, { ...lease, spec }).then(
        () => true,
        (error) => {
          if (!isKubeError(error, 'conflict')) throw error;
          return false;
        },
      );
    }
    expect((await agent.ended)[0]).toBe(1);
    expect(agent.output()).toContain('was taken by another process');
    expect((await harness.kube.get(LEASE_RESOURCE, ref)).spec?.holderIdentity).toBe('somebody-else');
  });
});
