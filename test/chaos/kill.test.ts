import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@semblance/testkit/stack/eventually';
import { SERVICE_NAMES } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { atPhase, createRig, type Rig } from './rig.ts';

/** Every service is killed with kill -9 at every step of a running job. */
let rig: Rig;
beforeAll(async () => {
  rig = await createRig();
}, 300_000);
afterAll(() => rig?.close(), 200_000);

/**
 * Kills while the job runs. Returns false when the job had already ended, as on a busy machine; another job is then
 * needed.
 */
function killWhileRunning(id: string, kill: () => void): boolean {
  if (rig.phaseOf(id) !== 'Running') return false;
  kill();
  return true;
}

/**
 * Each function brings jobs to the named steps, calls `kill` at that moment, and returns the jobs. Two jobs share
 * each kill: the agent has one slot, so the second job is behind.
 */
const STEPS: Record<string, (kill: () => void) => Promise<string[]>> = {
  'running, another being submitted': async (kill) => {
    const jobs: string[] = [];
    for (let killed = false; !killed; ) {
      const first = await rig.submitTo(['Running'], 'long');
      const key = randomUUID();
      const sent = rig.trySubmit(key);
      // The request is on its way; chance decides how far it gets.
      await delay(Math.random() * 20);
      killed = killWhileRunning(first, kill);
      const answered = await sent;
      const second = await rig.submit('short', key);
      // An answer that was given must stay true.
      if (answered) expect(second).toBe(answered);
      jobs.push(first, second);
    }
    return jobs;
  },
  'running, another just accepted': async (kill) => {
    const jobs: string[] = [];
    for (let killed = false; !killed; ) {
      const first = await rig.submitTo(['Running'], 'long');
      jobs.push(first, await rig.submit());
      killed = killWhileRunning(first, kill);
    }
    return jobs;
  },
  'assigned, another only uploaded': async (kill) => {
    await rig.upload();
    const first = await rig.submitTo(['Assigned', 'Running'], 'short', kill);
    return [first, await rig.submit()];
  },
  'its output stored, another waiting as a RenderJob': async (kill) => {
    const first = await rig.submit();
    const second = await rig.submit();
    await rig.reach(second, () => true);
    await rig.reachStored(first, kill);
    return [first, second];
  },
  'rendered but not settled, another next': async (kill) => {
    const first = await rig.submit();
    const second = await rig.submit();
    await rig.reach(first, atPhase('Succeeded'), kill);
    return [first, second];
  },
};

describe.each(Object.entries(STEPS))('a job is %s', (_step, bringThere) => {
  test.each(SERVICE_NAMES)(
    'and %s is killed',
    async (service) => {
      let back: Promise<void> | undefined;
      const jobs = await bringThere(() => {
        back = rig.kill(service).back;
      });
      await Promise.all(jobs.map(rig.expectDone));
      await back;
      // The stack must work again before the next service is killed.
      await eventually('the API to answer', async () => {
        const { status } = await rig.api.get('/balance');
        return status === 200 ? true : undefined;
      });
    },
    400_000,
  );
});

test(
  'afterwards each job was charged once, nothing is held, and nothing is left',
  () => rig.expectCleanBooks(),
  200_000,
);
