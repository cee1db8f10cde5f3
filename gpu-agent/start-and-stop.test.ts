import { readdir } from 'node:fs/promises';
import { status } from '@grpc/grpc-js';
import { call } from '@semblance/common/grpc/client';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const {
  ATTEMPT_STATE_RUNNING: RUNNING,
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_STOPPED: STOPPED,
} = AttemptState;

let harness: Harness;
let agent: TestAgent;
let watch: ReturnType<TestAgent['watch']>;

beforeAll(async () => {
  harness = await createHarness();
  agent = await harness.agent();
  watch = agent.watch();
  await warm(agent);
});
afterAll(() => harness.close());

const warm = (of: TestAgent) =>
  until(async () => (await of.resource())?.status?.slots === 2, 'both engine processes warm');

describe('starting and stopping', () => {
  it('begins once however often it is asked', async () => {
    const request = agent.request('ok');
    await Promise.all(Array.from({ length: 10 }, () => agent.start(request)));
    await watch.ended(request.ref);
    await agent.start(request);
    expect(harness.store.puts.filter((path) => path.endsWith(request.ref?.jobUid ?? '?'))).toHaveLength(1);
    await agent.acknowledge(request.ref);
    await expect(agent.start(request)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
  });

  it('refuses what is meant for another process', async () => {
    const request = { ...agent.request('ok'), incarnation: 'another' };
    await expect(agent.start(request)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    const known = agent.request('slow');
    await agent.start(known);
    await watch.until(known.ref, ({ stage }) => stage === 'slow');
    const refused = { code: status.FAILED_PRECONDITION, details: expect.stringContaining('not another') };
    await expect(agent.stop(known.ref, 'meant for another', 'another')).rejects.toMatchObject(refused);
    await expect(agent.stop(known.ref, 'meant for nobody', '')).rejects.toMatchObject({ code: refused.code });
    expect(watch.of(known.ref)?.state).toBe(RUNNING);
    // A call without an incarnation addresses any process.
    await call(
      agent.client.stopAttempt.bind(agent.client),
      { ref: known.ref, reason: '' },
      { timeoutMs: 30_000 },
    );
    await expect(agent.acknowledge(known.ref, 'another')).rejects.toMatchObject(refused);
    // The attempt is still held, so a new watch receives it first.
    const late = agent.watch();
    expect(await late.ended(known.ref)).toMatchObject({ state: STOPPED });
    late.cancel();
    await agent.acknowledge(known.ref);
    const other = agent.client.watchAttempts({ incarnation: 'another' });
    const error = await new Promise((resolve) => other.on('error', resolve).resume());
    expect(error).toMatchObject({ code: status.FAILED_PRECONDITION });
  });

  it.each([
    ['a capability no engine has', { capability: 'lip-sync', inputs: {} }],
    ['malformed work', { sinks: [] }],
  ])('refuses %s', async (_what, change) => {
    const request = agent.request('ok', change);
    if (request.capability === 'lip-sync') {
      request.inputs = {
        video: { url: harness.store.url('/x'), maxBytes: 0n },
        audio: { url: harness.store.url('/x'), maxBytes: 0n },
      };
    }
    await expect(agent.start(request)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it('takes no more than its slots, and frees one by the time a stop is answered', async () => {
    const [first, second, third] = [agent.request('slow'), agent.request('slow'), agent.request('ok')];
    await agent.start(first);
    await agent.start(second);
    await expect(agent.start(third)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await agent.stop(first.ref, 'making room');
    // The last message of the stream comes before the answer to the stop.
    expect(watch.of(first.ref)).toMatchObject({
      state: STOPPED,
      failure: { message: 'stopped: making room' },
    });
    await agent.start(third);
    await agent.stop(second.ref);
    for (const { ref } of [first, second]) await agent.acknowledge(ref);
    expect((await watch.ended(third.ref)).state).toBe(SUCCEEDED);
    await agent.acknowledge(third.ref);
  });

  it('counts what a capability costs in slots', { tags: ['ffmpeg'] }, async () => {
    const small = agent.request('slow');
    const request = agent.request('slow', { capability: 'face-swap' });
    request.inputs = { video: request.inputs.image as never, face: request.inputs.face as never };
    await agent.start(small);
    await expect(agent.start(request)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await agent.stop(small.ref);
    await agent.start(request);
    await watch.until(request.ref, ({ stage }) => stage === 'slow');
    await agent.stop(request.ref);
  });

  it('forbids for ever what was stopped before it began', async () => {
    const request = agent.request('ok');
    await agent.stop(request.ref);
    await expect(agent.start(request)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    const ref = { jobUid: request.ref?.jobUid ?? '', attempt: 2 };
    await agent.start({ ...request, ref });
    expect((await watch.ended(ref)).state).toBe(SUCCEEDED);
    await agent.acknowledge(ref);
  });

  it('ends an older attempt before a newer one of the job begins', async () => {
    const old = agent.request('slow');
    await agent.start(old);
    await watch.until(old.ref, ({ stage }) => stage === 'slow');
    const ref = { jobUid: old.ref?.jobUid ?? '', attempt: 2 };
    await agent.start({ ...old, ref, parameters: { mode: 'ok' } });
    expect(watch.of(old.ref)?.state).toBe(STOPPED);
    expect((await watch.ended(ref)).state).toBe(SUCCEEDED);
    await expect(agent.start({ ...old, ref: { ...ref, attempt: 1 } })).resolves.toBeDefined();
    for (const each of [old.ref, ref]) await agent.acknowledge(each);
    await expect(agent.start({ ...old, ref: { ...ref, attempt: 1 } })).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
    });
  });

  it('stops within two seconds an engine that does not want to, and the other render goes on', async () => {
    // This agent gives a cancelled render the usual time.
    const strict = await harness.agent({ cancelGraceMs: undefined });
    await warm(strict);
    const watching = strict.watch();
    const [other, stubborn] = [strict.request('slow'), strict.request('ignore-cancel')];
    await strict.start(other);
    await strict.start(stubborn);
    await watching.until(stubborn.ref, ({ stage }) => stage === 'first');
    const took = await fairly(async (now) => {
      const began = now();
      await strict.stop(stubborn.ref);
      return now() - began;
    });
    expect(took).toBeLessThan(2_000);
    expect(watching.of(stubborn.ref)?.state).toBe(STOPPED);
    expect((await strict.figures())('engine_restarts_total', 'engine="test"')).toBe(1);
    const before = watching.of(other.ref)?.progress ?? 1;
    await watching.until(other.ref, ({ progress }) => progress > before);
    await strict.stop(other.ref);
    for (const { ref } of [stubborn, other]) await strict.acknowledge(ref);
    await strict.close();
  });

  it('stops while it fetches', async () => {
    harness.store.on('/in/never', () => {});
    const request = agent.request('ok');
    request.inputs.image = { url: harness.store.url('/in/never'), maxBytes: 0n };
    await agent.start(request);
    await until(() => harness.store.count('/in/never') > 0, 'the fetch began');
    await agent.stop(request.ref);
    expect(watch.of(request.ref)?.state).toBe(STOPPED);
    expect(await agent.leftovers()).toEqual([]);
    await agent.acknowledge(request.ref);
  });

  it('refuses to forget what still runs', async () => {
    const request = agent.request('slow');
    await agent.start(request);
    await expect(agent.acknowledge(request.ref)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    await agent.stop(request.ref);
    await agent.acknowledge(request.ref);
  });

  // The test of a video's slots adds one of the counted refusals.
  it('counts what it stopped, which ended no engine process', { tags: ['ffmpeg'] }, async () => {
    const value = await agent.figures();
    expect(value('attempts_total', 'capability="face-swap-image"', 'outcome="stopped"')).toBeGreaterThan(4);
    expect(value('engine_restarts_total', 'engine="test"')).toBeNaN();
    expect(value('starts_refused_total', 'why="no-slot"')).toBeGreaterThan(1);
    expect(value('slots_used')).toBe(0);
  });
});

describe('ending', () => {
  it('finishes what runs within its grace, hands over the result, and leaves nothing', async () => {
    const leaving = await harness.agent({ env: { SEMBLANCE_AGENT_DRAIN_SECONDS: '60' } });
    const last = leaving.watch();
    const quick = leaving.request('big');
    await leaving.start(quick);
    const closing = leaving.close();
    await until(async () => (await leaving.resource())?.status?.draining === true, 'draining is announced');
    await expect(leaving.start(leaving.request('ok'))).rejects.toBeDefined();
    expect((await last.ended(quick.ref)).state).toBe(SUCCEEDED);
    await leaving.acknowledge(quick.ref).catch(() => {});
    await closing;
    expect((await leaving.resource())?.status).toMatchObject({ draining: true, slots: 0 });
    expect((await leaving.lease())?.spec?.holderIdentity ?? '').toBe('');
    expect(await readdir(leaving.workDir)).toEqual([]);
  });

  it('gives up as stopped what does not finish in time', async () => {
    const leaving = await harness.agent();
    const last = leaving.watch();
    const slow = leaving.request('slow');
    await leaving.start(slow);
    await last.until(slow.ref, ({ stage }) => stage === 'slow');
    const closing = leaving.close();
    const ended = await last.ended(slow.ref);
    expect(ended).toMatchObject({ state: STOPPED, failure: { message: 'the agent is ending' } });
    await leaving.acknowledge(slow.ref).catch(() => {});
    await closing;
    expect(await readdir(leaving.workDir)).toEqual([]);
  });
});
