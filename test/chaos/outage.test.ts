import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { atPhase, createRig, expectOutage, type Rig } from './rig.ts';

/** Postgres, NATS and the API server do not answer for 20 s: their processes are stopped, their connections hang. */
const OUTAGE_MS = 20_000;
/** Longest a caller may have to wait to be told. */
const ANSWER_WITHIN_MS = 15_000;

let rig: Rig;
beforeAll(async () => {
  rig = await createRig();
}, 240_000);
afterAll(() => rig?.close(), 60_000);

interface Told {
  readonly submits: number;
  readonly accepted: string[];
  readonly slowestMs: number;
}

/** Calls the API as clients do until the outage is over: what is accepted counts, what is refused is an outage. */
async function callThroughout(until: number): Promise<Told> {
  const accepted: string[] = [];
  let submits = 0;
  let slowestMs = 0;
  const timed = async <T>(call: Promise<T>): Promise<T> => {
    const began = performance.now();
    const answer = await call;
    slowestMs = Math.max(slowestMs, performance.now() - began);
    return answer;
  };
  while (Date.now() < until) {
    const key = `outage-${until}-${submits++}`;
    const id = await timed(rig.trySubmit(key));
    if (id) accepted.push(await rig.submit(key));
    const balance = await timed(rig.api.get('/balance'));
    if (balance.status !== 200) expectOutage(balance);
    await delay(1_000);
  }
  return { submits, accepted, slowestMs };
}

describe.each([
  ['postgres', 'refuses'],
  ['nats', 'accepts'],
  ['kube-apiserver', 'accepts'],
])('%s is away for 20 s', (service, does) => {
  test(`the API ${does} jobs meanwhile, and everything recovers by itself`, async () => {
    const before = await rig.submit();
    const waiting = await rig.submit();
    await rig.reach(before, atPhase('Running', 'Succeeded'));

    const thaw = rig.freeze(service);
    let told: Told;
    try {
      told = await callThroughout(Date.now() + OUTAGE_MS);
    } finally {
      thaw();
    }
    expect(told.submits).toBeGreaterThan(0);
    expect(told.slowestMs).toBeLessThan(ANSWER_WITHIN_MS);
    if (does === 'accepts') expect(told.accepted.length).toBe(told.submits);
    // The last call may have been answered after the outage.
    else expect(told.accepted.length).toBeLessThanOrEqual(1);

    await Promise.all([before, waiting, ...told.accepted].map(rig.expectDone));
    const after = await rig.submit();
    await rig.expectDone(after);
    await eventually('everything to be ready', async () => {
      const { status } = await rig.api.get('/balance');
      return status === 200 ? true : undefined;
    });
  }, 240_000);
});

test(
  'afterwards each job was charged once, nothing is held, and nothing is left',
  () => rig.expectCleanBooks(),
  60_000,
);
