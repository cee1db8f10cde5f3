import { rm } from 'node:fs/promises';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { CARD, type FakeCards, fakeNvidiaSmi } from '@semblance/testkit/gpu-agent/nvidia-smi';
import { TEST_ENGINE } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

let harness: Harness;
let cards: FakeCards;
beforeAll(async () => {
  harness = await createHarness();
});
beforeEach(() => {
  cards = fakeNvidiaSmi(harness.dir);
});
afterEach(() => harness.closeAgents());
afterAll(() => harness.close());

const start = (ceiling?: number) =>
  harness.agent({
    engines: [
      { ...TEST_ENGINE, shared: true, usesCards: true, ...(ceiling ? { vramCeilingMib: ceiling } : {}) },
    ],
    cards: { program: cards.program, everyMs: 100 },
  });
const status = async (agent: TestAgent) => (await agent.resource())?.status;
const told = (agent: TestAgent, mib: number | undefined) =>
  until(async () => (await status(agent))?.cards?.[0]?.ownMib === mib, `engines that take ${mib} MiB`);

describe('the memory of the cards', () => {
  it.each([
    ['its own PIDs', 0],
    ['the PIDs of the host', 100_000],
  ])('is in the GpuAgent, and which of it is its own, where the driver tells %s', async (_, pidOffset) => {
    cards.set({ pidOffset });
    const agent = await start();
    await told(agent, 1_000);
    expect((await status(agent))?.cards).toEqual([
      { uuid: CARD, totalMib: 24_576, usedMib: 1_500, ownMib: 1_000 },
    ]);
    expect((await status(agent))?.engines?.[0]).toMatchObject({ vramMib: 1_000 });
    // What another pool takes on the card is seen too.
    cards.set({ othersMib: 9_000, engineMib: 2_000 });
    await expect
      .poll(async () => (await status(agent))?.cards, { timeout: 30_000 })
      .toEqual([{ uuid: CARD, totalMib: 24_576, usedMib: 11_000, ownMib: 2_000 }]);
    // What renders added is none of the models'.
    expect((await status(agent))?.engines?.[0]).toMatchObject({ vramMib: 1_000 });
  });

  it('is not told while it cannot be read, and again when it can', async () => {
    const agent = await start();
    await told(agent, 1_000);
    cards.set({ failure: 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.' });
    await told(agent, undefined);
    expect((await status(agent))?.cards ?? []).toEqual([]);
    expect((await status(agent))?.slots).toBe(2);
    cards.set({ failure: '' });
    await told(agent, 1_000);
  });

  it('is the card’s alone where the driver does not tell that of processes', async () => {
    cards.set({ engineMib: '[N/A]' });
    const agent = await start();
    await until(async () => (await status(agent))?.cards?.[0]?.usedMib === 500, 'the card');
    expect((await status(agent))?.engines?.[0]).not.toHaveProperty('vramMib');
  });
});

describe('an engine over its ceiling', () => {
  it('ends when its renders are done, and comes back', async () => {
    const agent = await start(3_000);
    await told(agent, 1_000);
    const watch = agent.watch();
    const running = agent.request('wait-for-cancel-file');
    await agent.start({ ...running, parameters: { mode: 'slow' } });
    await watch.until(running.ref, ({ stage }) => stage === 'slow');
    cards.set({ engineMib: 3_001 });
    // It takes nothing more, and what it renders goes on.
    await until(async () => (await status(agent))?.slots === 0, 'no slots');
    expect((await status(agent))?.engines ?? []).toEqual([]);
    await expect(agent.start(agent.request('ok'))).rejects.toThrow(/does not answer/);
    cards.set({ engineMib: 1_000 });
    await agent.stop(running.ref);
    expect((await watch.ended(running.ref)).state).toBe(AttemptState.ATTEMPT_STATE_STOPPED);
    await until(async () => (await status(agent))?.slots === 2, 'slots of a new process');
    const again = agent.request('ok');
    await agent.start(again);
    expect((await watch.ended(again.ref)).state).toBe(AttemptState.ATTEMPT_STATE_SUCCEEDED);
    // Nothing failed.
    expect((await agent.figures())('engine_restarts_total') || 0).toBe(0);
    for (const { ref } of [running, again]) await agent.acknowledge(ref);
    watch.cancel();
  });

  it('goes on where its models alone take more, because a new process would too', async () => {
    const agent = await start(500);
    await told(agent, 1_000);
    cards.set({ engineMib: 4_000 });
    await told(agent, 4_000);
    expect((await status(agent))?.slots).toBe(2);
  });
});

it('is not read without the program', async () => {
  await rm(cards.program);
  const agent = await start();
  await until(async () => (await status(agent))?.slots === 2, 'slots');
  expect((await status(agent))?.cards ?? []).toEqual([]);
});
