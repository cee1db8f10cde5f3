import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import type { AllocateResponse } from '@semblance/proto/semblance/operator/v1/operator';
import { type Allocations, allocationOf, createAllocations } from '@semblance/testkit/operator/allocate';
import type { FakeAgent } from '@semblance/testkit/operator/fake-agent';
import { doubles, type SlotLedger } from '@semblance/testkit/operator/fake-live';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { createOperatorProcesses } from '@semblance/testkit/operator/operator-process';
import { afterEach, beforeEach, expect, it } from 'vitest';

/** These agents accept every claim. If the operator gives a slot twice, their ledger shows it. */
let harness: Harness;
let allocations: Allocations;
let ledger: SlotLedger;

beforeEach(async () => {
  harness = await createHarness();
  allocations = createAllocations(harness);
  ledger = { entries: [] };
});

afterEach(async () => {
  allocations.close();
  await harness.close();
});

const SLOTS = 5;
const start = (name: string) =>
  harness.agent({
    name,
    script() {},
    live: { voice: SLOTS },
    slotLedger: ledger,
    lax: true,
    leaseSeconds: 6,
  });
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Opens sessions from many clients at once. Each asks until it has an answer, holds the session, and closes it. */
async function storm(options: {
  readonly count: number;
  readonly clients: number;
  readonly holdMs: number;
  readonly agents: () => readonly FakeAgent[];
  readonly onAnswer?: (done: number) => void;
}): Promise<Map<string, AllocateResponse>> {
  const answers = new Map<string, AllocateResponse>();
  let next = 0;
  const client = async () => {
    while (next < options.count) {
      const request = allocationOf(`storm-${next++}`);
      for (;;) {
        const answer = await allocations.allocate(request).catch(() => undefined);
        if (!answer) {
          await sleep(50);
          // A session that lost its slot together with the agent gets no other.
          const session = await allocations.session(request.sessionId).catch(() => undefined);
          if (session?.status?.phase === 'Ended') break;
          continue;
        }
        answers.set(request.sessionId, answer);
        options.onAnswer?.(answers.size);
        await sleep(options.holdMs);
        const agent = options.agents().find(({ incarnation }) => incarnation === answer.incarnation);
        agent?.live.end(request.sessionId);
        break;
      }
    }
  };
  await Promise.all(Array.from({ length: options.clients }, client));
  return answers;
}

/** Expects that exactly the process in each answer gave that session a slot. */
function expectGiven(answers: ReadonlyMap<string, AllocateResponse>): void {
  const given = new Set(ledger.entries.map(({ session, place }) => `${session} ${place}`));
  for (const [session, { agent, incarnation }] of answers) {
    expect(given).toContain(`${session} ${agent}/${incarnation}/voice`);
  }
}

it('hundreds at once over a few agents: every slot used, none twice', async () => {
  const agents = await Promise.all(['a', 'b', 'c', 'd'].map(start));
  const operator = await harness.operator();
  await expect.poll(allocations.address, { timeout: 20_000 }).toBe(operator.address);
  const answers = await storm({ count: 240, clients: 60, holdMs: 5, agents: () => agents });
  expect(answers.size).toBe(240);
  expectGiven(answers);
  expect(doubles(ledger)).toEqual([]);
  expect(agents.map(({ live }) => live.most.get('voice'))).toEqual([SLOTS, SLOTS, SLOTS, SLOTS]);
  // One claim each: the book was right, and no agent was asked in vain.
  expect(agents.flatMap(({ live }) => live.claims)).toHaveLength(240);
  expect(await allocations.list()).toHaveLength(240);
}, 120_000);

it('while operators and agents are killed: no slot is held twice, and none is lost', async () => {
  const agents = await Promise.all(['a', 'b', 'c'].map(start));
  const processes = await createOperatorProcesses(harness);
  let started = 0;
  const launch = () =>
    processes.start(`operator-${++started}`, {
      SEMBLANCE_OPERATOR_LEASE_SECONDS: '2',
      SEMBLANCE_OPERATOR_RENEW_DEADLINE_SECONDS: '1.6',
      SEMBLANCE_OPERATOR_RENEW_SECONDS: '0.3',
    });
  let operator = await launch();
  await operator.ready();
  const faults: Promise<void>[] = [];
  const at = new Map<number, () => Promise<void>>([
    [
      30,
      async () => {
        await operator.kill('SIGKILL');
        operator = await launch();
      },
    ],
    [
      70,
      async () => {
        await agents[0]?.kill();
        agents.push(await start('a'));
      },
    ],
    [
      110,
      async () => {
        await operator.kill('SIGKILL');
        operator = await launch();
      },
    ],
  ]);
  try {
    const answers = await storm({
      count: 150,
      clients: 40,
      holdMs: 20,
      agents: () => agents,
      onAnswer: (done) => {
        const fault = at.get(done);
        if (fault) faults.push(fault());
      },
    });
    await Promise.all(faults);
    expect(faults).toHaveLength(3);
    // Sessions on the killed agent may never have been answered.
    expect(answers.size).toBeGreaterThan(130);
    expectGiven(answers);
    expect(doubles(ledger)).toEqual([]);
    // Slots left behind between a claim and its LiveSession are given back.
    for (const { metadata } of await allocations.list()) {
      const { name = '', namespace } = metadata;
      await harness.client.delete(LIVESESSION_RESOURCE, { name, namespace });
    }
    const living = agents.slice(1);
    await expect
      .poll(() => living.reduce((sum, { live }) => sum + live.held.size, 0), { timeout: 40_000 })
      .toBe(0);
  } finally {
    await processes.close();
  }
}, 240_000);
