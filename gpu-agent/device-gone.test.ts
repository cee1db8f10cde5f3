import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { TEST_ENGINE } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const {
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_INTERRUPTED: INTERRUPTED,
  ATTEMPT_STATE_STOPPED: STOPPED,
} = AttemptState;

let harness: Harness;
let agent: TestAgent;
let device: string;

beforeAll(async () => {
  harness = await createHarness();
  device = join(harness.dir, 'device');
  await writeFile(device, '');
  // As with the engine `onnx`, one process holds all renders, because they share its memory.
  agent = await harness.agent({ engines: [{ ...TEST_ENGINE, shared: true, devices: [device] }] });
  await until(async () => (await agent.resource())?.status?.slots === 2, 'two slots');
});
afterAll(() => harness.close());

describe('an agent whose device is gone', () => {
  it('gives its work back, says what it cannot do and why, and does it again when the device is back', {
    tags: ['ffmpeg'],
  }, async () => {
    const watch = agent.watch();
    const held = Promise.withResolvers<void>();
    harness.store.on('/in/held', async (request, response) => {
      await held.promise;
      harness.store.serve(request, response, harness.store.objects.get('/in/image') as Buffer);
    });
    const [running, fetching] = [agent.request('slow'), agent.request('ok')];
    fetching.inputs = { ...fetching.inputs, image: { url: harness.store.url('/in/held'), maxBytes: 0n } };
    await agent.start(running);
    await agent.start(fetching);
    await watch.until(running.ref, ({ stage }) => stage === 'slow');

    await rm(device);
    // The operator gives stopped work to another agent and does not count it as a failure.
    const given = { state: STOPPED, failure: { message: 'The device that it ran on is gone.' } };
    expect(await watch.ended(running.ref)).toMatchObject(given);
    const said = `the device ${device} is gone`;
    await until(async () => (await agent.resource())?.status?.slots === 0, 'no slots');
    expect((await agent.resource())?.status).toMatchObject({ engines: [] });
    const { unavailable = [], unavailableNames } = (await agent.resource())?.status ?? {};
    expect(unavailable).toContainEqual({ name: 'face-swap-image', message: said });
    expect(unavailableNames).toContain('face-swap-image');
    const ready = await agent.ready();
    expect(ready.status).toBe(503);
    expect(ready.text).toContain(`devices: ${said}`);
    expect((await agent.figures())('device_gone')).toBe(1);
    await expect(agent.start(agent.request('ok'))).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    held.resolve();
    expect(await watch.ended(fetching.ref)).toMatchObject(given);

    await writeFile(device, '');
    await until(async () => (await agent.resource())?.status?.slots === 2, 'two slots again');
    expect((await agent.ready()).status).toBe(200);
    expect((await agent.resource())?.status?.unavailableNames).toBe('avatar');
    const again = agent.request('ok');
    await agent.start(again);
    expect((await watch.ended(again.ref)).state).toBe(SUCCEEDED);
    for (const { ref } of [running, fetching, again]) await agent.acknowledge(ref);
    watch.cancel();
  });

  it.each([
    ['a device that is gone', 'CUDA failure 100: no CUDA-capable device is detected ; GPU=-1', STOPPED],
    ['one that failed at the work', 'CUDA failure 719: unspecified launch failure ; GPU=0', INTERRUPTED],
    ['one that is full', 'Failed to allocate memory for requested buffer of size 13111296', INTERRUPTED],
    ['one that is full for a library', 'CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0', INTERRUPTED],
  ])(
    'is told by the errors of its engine, whose process ends and comes back: %s',
    async (_, message, state) => {
      await until(async () => (await agent.resource())?.status?.slots === 2, 'two slots');
      const crashed = (await agent.figures())('engine_restarts_total') || 0;
      const watch = agent.watch();
      const request = agent.request('fail-with');
      request.parameters = { ...request.parameters, message };
      await agent.start(request);
      const ended = await watch.ended(request.ref);
      expect(ended.state).toBe(state);
      // Callers must not see the text of a driver.
      expect(ended.failure?.message).not.toMatch(/CUDA|CUBLAS|allocate/);
      await agent.acknowledge(request.ref);
      // Nothing is offered until a new process, with memory of its own, is warm.
      await until(async () => (await agent.figures())('engine_restarts_total') === crashed + 1, 'a restart');
      const again = agent.request('ok');
      const taken = () =>
        agent.start(again).then(
          () => true,
          () => false,
        );
      await until(taken, 'work is taken again');
      expect((await watch.ended(again.ref)).state).toBe(SUCCEEDED);
      await agent.acknowledge(again.ref);
      watch.cancel();
    },
  );
});
