import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AttemptState, type StartAttemptRequest } from '#proto/semblance/agent/v1/agent.ts';
import { createHarness, type Harness, type TestAgent, until } from './testing/harness.ts';

const {
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_FAILED: FAILED,
  ATTEMPT_STATE_INTERRUPTED: INTERRUPTED,
  ATTEMPT_STATE_STOPPED: STOPPED,
} = AttemptState;

let harness: Harness;
let agent: TestAgent;
let watch: ReturnType<TestAgent['watch']>;

beforeAll(async () => {
  harness = await createHarness();
  agent = await harness.agent();
  watch = agent.watch();
  await until(async () => (await agent.resource())?.status?.slots === 2, 'both engine processes warm');
});
afterAll(() => harness.close());

/** Starts, waits for the end, and checks that nothing stays on disk. */
async function run(mode: string, change: Partial<StartAttemptRequest> = {}) {
  const request = agent.request(mode, change);
  await agent.start(request);
  const ended = await watch.ended(request.ref);
  expect(await agent.leftovers()).toEqual([]);
  await agent.acknowledge(request.ref);
  return ended;
}
const freeSlots = () => until(async () => (await agent.resource())?.status?.slots === 2, 'two slots');

/** Reads one figure of /metrics by name and labels. */
async function figures(of: TestAgent) {
  const lines = (await of.metrics()).split('\n');
  return (name: string, ...labels: string[]) => {
    const line = lines.find(
      (each) => each.startsWith(`semblance_agent_${name}{`) && labels.every((label) => each.includes(label)),
    );
    return Number(line?.split(' ').at(-1));
  };
}

describe('an attempt', () => {
  it('fetches, renders and stores, and reports all of it', async () => {
    const request = agent.request('ok');
    await agent.start(request);
    const ended = await watch.ended(request.ref);
    const output = createHash('sha256')
      .update(harness.store.objects.get('/in/image') as Buffer)
      .update(harness.store.objects.get('/in/face') as Buffer)
      .digest();
    expect(ended).toMatchObject({
      state: SUCCEEDED,
      progress: 1,
      output: {
        key: request.sinks[0]?.key,
        contentType: 'image/png',
        sizeBytes: 32n,
        sha256Hex: createHash('sha256').update(output).digest('hex'),
        unit: 'image',
        milliUnits: 1000n,
        engine: 'test 1',
      },
      failure: undefined,
    });
    expect(ended.output?.stages.map(({ name }) => name)).toEqual(['fetch', 'render', 'store']);
    expect(harness.store.stored.get(`/out/${request.ref?.jobUid}`)?.bytes).toBe(32);
    expect(await agent.leftovers()).toEqual([]);
    await agent.acknowledge(request.ref);
    await agent.acknowledge(request.ref);
  });

  it.each([
    ['refuse', FAILED, 'face_not_detected', 'There is no face in the image.'],
    ['throw', FAILED, 'processing_failed', 'The engine could not render this input.'],
    ['outside', FAILED, 'processing_failed', 'The engine could not render this input.'],
    ['link', FAILED, 'processing_failed', 'The engine could not render this input.'],
    ['empty', FAILED, 'processing_failed', 'The engine could not render this input.'],
    ['no-units', FAILED, 'processing_failed', 'The engine could not render this input.'],
    ['crash', INTERRUPTED, 'processing_failed', /engine process ended/],
    ['nonsense', SUCCEEDED, undefined, undefined],
  ])('with an engine that does "%s" ends with state %i', async (mode, state, code, message) => {
    const ended = await run(mode);
    expect(ended.state).toBe(state);
    expect(ended.failure?.code).toBe(code);
    if (message) expect(ended.failure?.message).toMatch(message);
    await freeSlots();
  });

  it('fails when there is no place for what the engine made', async () => {
    expect((await run('ok', { parameters: { mode: 'ok', type: 'image/webp' } })).state).toBe(FAILED);
  });

  it('chooses the sink by the type of the output', async () => {
    const sink = (contentType: string, at: string) => ({
      contentType,
      url: harness.store.url(at),
      headers: {},
      key: at.slice(1),
    });
    const sinks = [sink('image/png', '/out/a.png'), sink('image/webp', '/out/a.webp')];
    const ended = await run('ok', { parameters: { mode: 'ok', type: 'image/webp' }, sinks });
    expect(ended.output).toMatchObject({ key: 'out/a.webp', contentType: 'image/webp' });
    expect(harness.store.puts).not.toContain('/out/a.png');
  });

  it('is interrupted when an input link is dead, and fails when the input is too large', async () => {
    const inputs = agent.request('ok').inputs;
    const gone = { ...inputs, face: { url: harness.store.url('/in/nothing?sig=secret'), maxBytes: 0n } };
    const dead = await run('ok', { inputs: gone });
    expect(dead.state).toBe(INTERRUPTED);
    expect(dead.failure?.message).toMatch(/input face .* answered 404/);
    expect(dead.failure?.message).not.toContain('secret');
    const large = { ...inputs, face: { url: harness.store.url('/in/face'), maxBytes: 999n } };
    const refused = await run('ok', { inputs: large });
    expect(refused).toMatchObject({ state: FAILED, failure: { code: 'input_too_large' } });
  });

  it('is interrupted when the store refuses the output', async () => {
    harness.store.on('/refusing', (request, response) => {
      request.resume();
      response.writeHead(403).end();
    });
    const sinks = [
      { contentType: 'image/png', url: harness.store.url('/refusing'), headers: {}, key: 'out/x' },
    ];
    expect(await run('ok', { sinks })).toMatchObject({ state: INTERRUPTED });
  });

  it('ends at its deadline', async () => {
    const ended = await run('slow', { deadlineSeconds: 1 });
    expect(ended.state).toBe(INTERRUPTED);
    expect(ended.failure?.message).toMatch(/did not finish within 1 s/);
  });

  it('shows progress that never falls, about four times a second', async () => {
    const request = agent.request('slow');
    await agent.start(request);
    const from = watch.messages.length;
    const began = performance.now();
    await watch.until(request.ref, ({ progress, stage }) => stage === 'slow' && progress > 0.1);
    const seconds = (performance.now() - began) / 1000;
    await agent.stop(request.ref, 'seen enough');
    const seen = watch.messages
      .slice(from)
      .flatMap(({ attempts }) => attempts)
      .filter(({ ref }) => ref?.jobUid === request.ref?.jobUid)
      .map(({ progress }) => progress);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    // Besides these: the changes of stage.
    expect(seen.length).toBeLessThan(seconds * 5 + 6);
    await agent.acknowledge(request.ref);
  });
});

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
    const began = performance.now();
    await agent.stop(first.ref, 'making room');
    expect(performance.now() - began).toBeLessThan(2_000);
    // The last word on the stream came before the answer.
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

  it('counts what a capability costs in slots', async () => {
    const small = agent.request('slow');
    const request = agent.request('ok', { capability: 'face-swap' });
    request.inputs = { video: request.inputs.image as never, face: request.inputs.face as never };
    await agent.start(small);
    await expect(agent.start(request)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await agent.stop(small.ref);
    await agent.start(request);
    expect((await watch.ended(request.ref)).state).toBe(SUCCEEDED);
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
    const [stubborn, other] = [agent.request('ignore-cancel'), agent.request('slow')];
    await agent.start(stubborn);
    await agent.start(other);
    await watch.until(stubborn.ref, ({ stage }) => stage === 'first');
    const began = performance.now();
    await agent.stop(stubborn.ref);
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(watch.of(stubborn.ref)?.state).toBe(STOPPED);
    const before = watch.of(other.ref)?.progress ?? 1;
    await watch.until(other.ref, ({ progress }) => progress > before);
    await agent.stop(other.ref);
    for (const { ref } of [stubborn, other]) await agent.acknowledge(ref);
    await freeSlots();
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
});

describe('watching', () => {
  it('begins with everything held, and an acknowledged attempt is not in it', async () => {
    const [held, forgotten] = [agent.request('ok'), agent.request('ok')];
    for (const request of [held, forgotten]) {
      await agent.start(request);
      await watch.ended(request.ref);
    }
    await agent.acknowledge(forgotten.ref);
    const late = agent.watch();
    expect((await late.ended(held.ref)).state).toBe(SUCCEEDED);
    expect(late.messages[0]?.snapshot).toBe(true);
    expect(late.of(forgotten.ref)).toBeUndefined();
    late.cancel();
    await agent.acknowledge(held.ref);
  });

  it('keeps the latest state for a reader that does not read', async () => {
    const stream = agent.client.watchAttempts({ incarnation: agent.incarnation });
    stream.on('error', () => {});
    await new Promise((resolve) => stream.once('data', resolve));
    stream.pause();
    const requests = Array.from({ length: 60 }, () => agent.request('ok'));
    for (const request of requests) {
      await until(
        () =>
          agent.start(request).then(
            () => true,
            () => false,
          ),
        'a free slot',
      );
    }
    await Promise.all(requests.map(({ ref }) => watch.ended(ref)));
    const states = new Map<string, number>();
    stream.on('data', ({ attempts }) => {
      for (const each of attempts) states.set(each.ref?.jobUid ?? '', each.state);
    });
    stream.resume();
    await until(
      () => requests.every(({ ref }) => states.get(ref?.jobUid ?? '') === SUCCEEDED),
      'the reader catches up',
    );
    stream.cancel();
    for (const { ref } of requests) await agent.acknowledge(ref);
  });
});

describe('figures and health', () => {
  it('counts attempts, bytes, stages and restarts', async () => {
    const value = await figures(agent);
    const photo = 'capability="face-swap-image"';
    expect(value('slots')).toBe(2);
    expect(value('slots_used')).toBe(0);
    expect(value('results_unacknowledged')).toBeGreaterThanOrEqual(0);
    expect(value('attempts_total', photo, 'outcome="succeeded"')).toBeGreaterThan(60);
    expect(value('attempts_total', photo, 'outcome="stopped"')).toBeGreaterThan(4);
    expect(value('stage_seconds_count', photo, 'stage="render"')).toBeGreaterThan(60);
    expect(value('fetched_bytes_total')).toBeGreaterThan(60 * 6_000);
    expect(value('stored_bytes_total')).toBeGreaterThan(60 * 32);
    // One crash, one process killed because it ignored a cancel.
    expect(value('engine_restarts_total', 'engine="test"')).toBe(2);
    expect(value('starts_refused_total', 'why="no-slot"')).toBeGreaterThan(1);
    expect(await agent.ready()).toMatchObject({ status: 200 });
  });
});

describe('ending', () => {
  it('finishes what runs within its grace, hands over the result, and leaves nothing', async () => {
    const leaving = await harness.agent({ env: { SEMBLANCE_AGENT_DRAIN_SECONDS: '10' } });
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
