import { silentLogger } from '@semblance/common/logging';
import { afterEach, describe, expect, it } from 'vitest';
import type { ContentCheck } from '../check.ts';
import { lookingCheck } from './looking-check.ts';

const idle = new AbortController().signal;
let check: ContentCheck | undefined;
afterEach(async () => check?.close());

/** Returns a function that looks at files in processes that do what the roles of the files say. */
function looks(timeoutMs: number, nice?: number) {
  const main = new URL('../../../packages/testkit/content-check/odd-looker.ts', import.meta.url);
  const checking = lookingCheck({
    name: 'hash-list',
    about: '',
    options: {},
    logger: silentLogger(),
    timeoutMs,
    main,
    ...(nice === undefined ? {} : { nice }),
  });
  check = checking;
  return (role: string, signal = idle) => {
    const files = [{ role, path: `/${role}`, kind: 'image' as const }];
    const job = { jobName: role, capability: 'face-swap-image' as const, parameters: {} };
    return checking.check({ phase: 'input', files, ...job }, signal);
  };
}
const ALLOWED = { status: 'fulfilled', value: { allowed: true } };

/** Longer than any standstill of the machine, and than it takes to start a process, in ms. */
const STUCK_MS = 10_000;

describe('the process of a check that opens files', () => {
  it('that a file brings down takes no other look with it', async () => {
    const look = looks(30_000);
    const fatal = look('fatal');
    const [ended, ...others] = await Promise.allSettled([fatal, look('long'), look('long'), look('long')]);
    expect(ended).toMatchObject({
      status: 'rejected',
      reason: { name: 'ContentCheckError', message: 'the process of the check hash-list ended (SIGSEGV)' },
    });
    expect(others).toEqual([ALLOWED, ALLOWED, ALLOWED]);
    expect(await look('short')).toEqual({ allowed: true });
  });

  it('is killed when a look stands still, and no other look fails for it', async () => {
    const look = looks(STUCK_MS);
    const endless = look('endless');
    const [ended, long] = await Promise.allSettled([endless, look('long')]);
    expect(ended).toMatchObject({
      status: 'rejected',
      reason: { name: 'ContentCheckError', message: 'the check hash-list came no further within 10 s' },
    });
    expect(long).toEqual(ALLOWED);
  });

  it('is killed when it stands still over a look that nobody waits for any more', async () => {
    const look = looks(STUCK_MS);
    const gone = new AbortController();
    const endless = look('endless', gone.signal);
    const long = look('long');
    gone.abort(new Error('nobody waits'));
    await expect(endless).rejects.toThrow('nobody waits');
    // This look runs as long as its process does; in a process of its own it ends at once.
    expect(await long).toEqual({ allowed: true });
  });

  it('leaves the processor to what must not wait, as renders do', async () => {
    const reason = 'The input 12 is not allowed here.';
    expect(await looks(30_000, 12)('nice')).toEqual({ allowed: false, reason });
  });

  it('is not started again at the end of the agent', async () => {
    const look = looks(30_000);
    const endless = look('endless');
    const ended = expect(endless).rejects.toThrow('the process of the check hash-list ended');
    await check?.close();
    await ended;
  });
});
