import { createHash } from 'node:crypto';
import { AttemptState, type StartAttemptRequest } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const {
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_FAILED: FAILED,
  ATTEMPT_STATE_INTERRUPTED: INTERRUPTED,
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

/** Starts an attempt, waits for its end, and checks that no file remains. */
async function run(mode: string, change: Partial<StartAttemptRequest> = {}) {
  const request = agent.request(mode, change);
  await agent.start(request);
  const ended = await watch.ended(request.ref);
  expect(await agent.leftovers()).toEqual([]);
  await agent.acknowledge(request.ref);
  return ended;
}
const freeSlots = () => until(async () => (await agent.resource())?.status?.slots === 2, 'two slots');

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
    expect(ended.output?.stages.map(({ name }) => name)).toEqual([
      'fetch',
      'check',
      'render',
      'mark',
      'store',
    ]);
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

  it('fails when an input is larger than its engine takes', { tags: ['ffmpeg'] }, async () => {
    // A machine short of memory for a moment offers one slot only, and a video takes two.
    await freeSlots();
    const { face } = agent.request('ok').inputs;
    const video = (name: string) => ({ url: harness.store.url(name), maxBytes: 0n });
    harness.store.objects.set('/in/long', Buffer.alloc(5_501));
    const swap = (name: string) =>
      run('refuse', {
        capability: 'face-swap',
        inputs: { video: video(name), face: face as NonNullable<typeof face> },
      });
    expect(await swap('/in/image')).toMatchObject({ state: FAILED, failure: { code: 'face_not_detected' } });
    expect(await swap('/in/long')).toMatchObject({ state: FAILED, failure: { code: 'input_too_large' } });
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
    // Each change of stage is reported too, beside the five reports per second.
    expect(seen.length).toBeLessThan(seconds * 5 + 6);
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
    const value = await agent.figures();
    const photo = 'capability="face-swap-image"';
    expect(value('slots')).toBe(2);
    expect(value('slots_used')).toBe(0);
    expect(value('results_unacknowledged')).toBeGreaterThanOrEqual(0);
    expect(value('attempts_total', photo, 'outcome="succeeded"')).toBeGreaterThan(60);
    expect(value('attempts_total', photo, 'outcome="stopped"')).toBe(1);
    expect(value('attempts_total', photo, 'outcome="interrupted"')).toBe(4);
    expect(value('stage_seconds_count', photo, 'stage="render"')).toBeGreaterThan(60);
    expect(value('fetched_bytes_total')).toBeGreaterThan(60 * 6_000);
    expect(value('stored_bytes_total')).toBeGreaterThan(60 * 32);
    // One engine process crashed.
    expect(value('engine_restarts_total', 'engine="test"')).toBe(1);
    expect(value('starts_refused_total', 'why="no-slot"')).toBeGreaterThan(1);
    expect(await agent.ready()).toMatchObject({ status: 200 });
  });
});
