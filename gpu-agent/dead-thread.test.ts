import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness } from '@semblance/testkit/gpu-agent/harness';
import { THREAD_ENGINE } from '@semblance/testkit/gpu-agent/thread-engine';
import { afterAll, beforeAll, expect, it } from 'vitest';

let harness: Harness;
beforeAll(async () => {
  harness = await createHarness();
});
afterAll(() => harness.close());

it('a render thread that dies interrupts its attempt each time, and the next render finds a new one', async () => {
  const agent = await harness.agent({
    engines: [THREAD_ENGINE],
    env: { SEMBLANCE_AGENT_SLOTS: '1' },
  });
  const watch = agent.watch();
  const run = async (mode: string, ref = agent.request(mode).ref, attempt = 1) => {
    const request = agent.request(mode, { ref: { jobUid: ref?.jobUid ?? '', attempt } });
    await agent.start(request);
    return watch.ended(request.ref);
  };
  const { ref } = agent.request('die');
  for (const attempt of [1, 2, 3]) {
    expect(await run('die', ref, attempt)).toMatchObject({
      state: AttemptState.ATTEMPT_STATE_INTERRUPTED,
      failure: { code: 'processing_failed', message: 'a render thread ended (exit status 7)' },
    });
  }
  expect((await run('ok')).state).toBe(AttemptState.ATTEMPT_STATE_SUCCEEDED);
  // The engine's process itself did not restart.
  expect((await agent.figures())('engine_restarts_total')).toBeNaN();
  expect(await agent.leftovers()).toEqual([]);
});
