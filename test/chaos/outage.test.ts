import { setTimeout as delay } from 'node:timers/promises';
import { stoodStillSince } from '@semblance/testkit/stack/standstill';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { atPhase, createRig, expectOutage, type Rig } from './rig.ts';

/**
 * Length of an outage of Postgres, NATS and the API server, in ms. In some tests one of them does not answer: its
 * processes are stopped, and connections hang. In another all are away, and nobody listens on their ports.
 */
const OUTAGE_MS = 20_000;
/** Longest time until a caller is answered, in ms. */
const ANSWER_WITHIN_MS = 15_000;

let rig: Rig;
beforeAll(async () => {
  rig = await createRig();
}, 300_000);
afterAll(() => rig?.close(), 200_000);

interface Told {
  readonly submits: number;
  /** Idempotency keys of the submits that were accepted. */
  readonly accepted: string[];
  readonly slowestMs: number;
}

/**
 * Calls the API like clients until the outage is over. Collects the accepted submits; any refusal must be due to an
 * outage.
 */
async function callThroughout(until: number): Promise<Told> {
  const accepted: string[] = [];
  let submits = 0;
  let slowestMs = 0;
  const timed = async <T>(call: Promise<T>): Promise<T> => {
    const began = performance.now();
    const answer = await call;
    // After a standstill of the machine the answer is late for that reason, and the call may have been made twice.
    if (!stoodStillSince(began)) slowestMs = Math.max(slowestMs, performance.now() - began);
    return answer;
  };
  while (Date.now() < until) {
    const key = `outage-${until}-${submits++}`;
    const id = await timed(rig.trySubmit(key));
    if (id) accepted.push(key);
    const balance = await timed(rig.api.get('/balance'));
    if (balance.status !== 200) expectOutage(balance);
    await delay(2_500);
  }
  return { submits, accepted, slowestMs };
}

describe.each([
  { what: 'postgres', away: ['postgres'], how: 'hangs', does: 'refuses' },
  { what: 'nats', away: ['nats'], how: 'hangs', does: 'accepts' },
  { what: 'kube-apiserver', away: ['kube-apiserver'], how: 'hangs', does: 'accepts' },
  { what: 'all three', away: ['postgres', 'nats', 'kube-apiserver'], how: 'are down', does: 'refuses' },
])('$what $how for 20 s', ({ away, how, does }) => {
  test(`the API ${does} jobs meanwhile, and everything recovers by itself`, async () => {
    const before = await rig.submit();
    const waiting = await rig.submit();
    await rig.reach(before, atPhase('Running', 'Succeeded'));

    const comeBack = how === 'hangs' ? rig.freeze(away[0] as string) : rig.takeDown(away);
    let told: Told;
    try {
      told = await callThroughout(Date.now() + OUTAGE_MS);
    } finally {
      comeBack();
    }
    expect(told.submits).toBeGreaterThan(0);
    expect(told.slowestMs).toBeLessThan(ANSWER_WITHIN_MS);
    if (does === 'accepts') expect(told.accepted.length).toBe(told.submits);
    // The last call may be answered after the outage.
    else expect(told.accepted.length).toBeLessThanOrEqual(1);

    // The submits are repeated here, because one may have been accepted just before everything was away.
    const accepted = await Promise.all(told.accepted.map((key) => rig.submit('short', key)));
    await Promise.all([before, waiting, ...accepted].map(rig.expectDone));
    const after = await rig.submit();
    await rig.expectDone(after);
  }, 400_000);
});

test(
  'afterwards each job was charged once, nothing is held, and nothing is left',
  () => rig.expectCleanBooks(),
  200_000,
);
