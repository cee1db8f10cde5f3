import type { Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness, readyOf as ready, waits } from '@semblance/testkit/operator/harness';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PRIORITYCLASS_RESOURCE } from './scheduling/priority-classes.ts';

let harness: Harness;
let runs: Run[];

beforeEach(async () => {
  harness = await createHarness();
  runs = [];
});

afterEach(() => harness.close());

const begun = () => runs.map(({ request }) => request.jobName);

async function oneSlot(): Promise<void> {
  await harness.agent({ name: 'one', slots: 1, script: (run) => void runs.push(run) });
  await harness.operator();
}

/** Ends running attempts until `count` attempts have begun. */
async function until(count: number): Promise<void> {
  for (let ended = runs.length - 1; ended < count - 1; ended++) {
    runs[ended]?.succeed();
    await expect.poll(() => runs.length, { timeout: 40_000 }).toBe(ended + 2);
  }
}

describe('accounts', () => {
  it('share the slots: one with many jobs does not keep another waiting, and each is told why', async () => {
    await oneSlot();
    for (const n of [1, 2, 3, 4]) await harness.job(`many-${n}`, { account: 'many' });
    await expect.poll(begun, { timeout: 40_000 }).toEqual(['many-1']);
    await harness.job('one-1', { account: 'one' });
    await harness.until('one-1', waits('SlotsBusy', 1));
    const second = await harness.until('many-2', waits('AccountShare', 2));
    expect(ready(second)?.message).toContain('1 job of its account runs');
    await until(5);
    expect(begun()).toEqual(['many-1', 'one-1', 'many-2', 'many-3', 'many-4']);
  }, 120_000);

  it('are as far as they were for the operator that takes over', async () => {
    await oneSlot();
    for (const n of [1, 2, 3]) await harness.job(`a-${n}`, { account: 'a' });
    await expect.poll(begun, { timeout: 40_000 }).toEqual(['a-1']);
    await harness.endOperators();
    await harness.job('b-1', { account: 'b' });
    await harness.operator();
    await harness.until('b-1', waits('SlotsBusy', 1));
    await until(2);
    expect(begun()).toEqual(['a-1', 'b-1']);
  }, 120_000);
});

describe('priorityClassName', () => {
  it('stands for the value of the class, as soon as there is one; until then the job is held back and says why', async () => {
    const name = `urgent-${harness.namespace}`;
    await oneSlot();
    await harness.job('first');
    await expect.poll(begun, { timeout: 40_000 }).toEqual(['first']);
    await harness.job('third', { priorityClassName: name });
    const unknown = await harness.until('third', waits('PriorityClassUnknown'));
    expect(ready(unknown)?.message).toContain(`There is no PriorityClass ${name}, so the job is held back.`);
    expect(unknown.status?.queuePosition).toBeUndefined();
    // The slot becomes free while the class is still missing: the job behind takes it.
    await harness.job('zeroth');
    await until(2);
    expect(begun()).toEqual(['first', 'zeroth']);
    await harness.job('second');
    await harness.until('second', waits('SlotsBusy', 1));
    await harness.client.create(PRIORITYCLASS_RESOURCE, { metadata: { name }, value: 1_000 });
    await harness.until('third', waits('SlotsBusy', 1));
    await until(3);
    expect(begun()).toEqual(['first', 'zeroth', 'third']);
    await harness.client.delete(PRIORITYCLASS_RESOURCE, { name });
  }, 120_000);

  it('and a priority exclude each other', async () => {
    await expect(harness.job('both', { priorityClassName: 'a', priority: 1 })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('exclude each other'),
    });
  });
});

it('the memory of a card that two agents share keeps a job waiting, with the figures', async () => {
  const card = { uuid: 'GPU-1', totalMib: 10_000, heldMib: 2_000, renderMib: 5_000 };
  for (const name of ['one', 'two'])
    await harness.agent({ name, slots: 4, card, script: (run) => void runs.push(run) });
  await harness.operator();
  await harness.job('first');
  await harness.job('second');
  await expect.poll(begun, { timeout: 40_000 }).toHaveLength(1);
  const waiting = begun()[0] === 'first' ? 'second' : 'first';
  const told = await harness.until(waiting, waits('CardsBusy', 1));
  expect(ready(told)?.message).toContain('1000 of 10000 MiB left, it takes 5000');
  await until(2);
}, 120_000);

it('memory beside slots keeps a job waiting, with the figures', async () => {
  await harness.agent({
    name: 'small',
    slots: 4,
    memoryMib: 1_500,
    renderMemoryMib: 1_000,
    script: (run) => void runs.push(run),
  });
  await harness.operator();
  await harness.job('first');
  await harness.job('second');
  await expect.poll(begun, { timeout: 40_000 }).toHaveLength(1);
  const waiting = begun()[0] === 'first' ? 'second' : 'first';
  const told = await harness.until(waiting, waits('MemoryBusy', 1));
  expect(ready(told)?.message).toContain('small: 500 of 1500 MiB left, it takes 1000');
  await until(2);
}, 120_000);
