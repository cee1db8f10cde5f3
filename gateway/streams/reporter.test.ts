import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import type { SessionReport, SessionVerdict } from '@semblance/proto/semblance/control/v1/control';
import { afterEach, describe, expect, it } from 'vitest';
import { createReporter, MAX_OWED, type Reporter } from './reporter.ts';

const made: Reporter[] = [];
afterEach(() => Promise.all(made.splice(0).map((reporter) => reporter.close(0))));

function start() {
  const messages: SessionReport[][] = [];
  const plane = {
    down: false,
    over: new Set<string>(),
    takes: Infinity,
    pause: Promise.resolve(),
    pauseMs: 0,
  };
  const send = async (reports: SessionReport[]): Promise<SessionVerdict[]> => {
    messages.push(reports);
    await plane.pause;
    if (plane.pauseMs > 0) await delay(plane.pauseMs);
    if (plane.down) throw new Error('down');
    return reports
      .slice(0, plane.takes)
      .map(({ sessionId }) => ({ over: plane.over.has(sessionId), reason: 'cancelled' }));
  };
  const reporter = createReporter({ send, logger: silentLogger() });
  made.push(reporter);
  return { reporter, messages, plane };
}

/** Makes the control plane take no message until `go`; messages after another `hold` wait for that one. */
function hold(plane: { pause: Promise<void> }): { go(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  plane.pause = promise;
  return { go: resolve };
}

function session(sessionId: string, streamedMs = 0) {
  const overs: (string | undefined)[] = [];
  return {
    sessionId,
    connectionId: `c-${sessionId}`,
    streamedMs,
    overs,
    over: (reason: string | undefined) => void overs.push(reason),
  };
}

describe('open sessions', () => {
  it('are reported together, again and again, with how far they are', async () => {
    const { reporter, messages, plane } = start();
    // Each message is held, so that none follows during the check.
    const first = hold(plane);
    const [a, b] = [session('a', 20), session('b')];
    reporter.add(a, 100);
    reporter.add(b, 100);
    await expect.poll(() => messages.length).toBe(1);
    a.streamedMs = 140;
    hold(plane);
    first.go();
    await expect.poll(() => messages.length).toBe(2);
    expect(
      messages.map((reports) => reports.map(({ sessionId, streamedMs }) => [sessionId, streamedMs])),
    ).toEqual([
      [
        ['a', 20n],
        ['b', 0n],
      ],
      [
        ['a', 140n],
        ['b', 0n],
      ],
    ]);
  });

  it('a verdict that one is over is passed on, to it alone', async () => {
    const { reporter, plane } = start();
    const [a, b] = [session('a'), session('b')];
    plane.over.add('b');
    reporter.add(a, 100);
    reporter.add(b, 100);
    await expect.poll(() => b.overs).toEqual(['cancelled']);
    expect(a.overs).toEqual([]);
  });

  it('more than one message takes go in several', async () => {
    const { reporter, messages } = start();
    for (let i = 0; i < 1_200; i++) reporter.add(session(`s${i}`), 100);
    // A busy machine may already be at their second round.
    await expect.poll(() => messages.length).toBeGreaterThanOrEqual(3);
    expect(messages.slice(0, 3).map(({ length }) => length)).toEqual([500, 500, 200]);
  });

  it('are reported every interval while others end without a pause', async () => {
    const { reporter, messages, plane } = start();
    plane.pauseMs = 50;
    const open = session('open');
    reporter.add(open, 100);
    const told = () => messages.filter((reports) => reports.some(({ sessionId }) => sessionId === 'open'));
    const began = performance.now();
    let ended = 0;
    while (told().length < 8) {
      // Ended within one interval and the running message; a normal machine takes little more than a second.
      expect(ended, 'told of while others end').toBeLessThan(200);
      reporter.end(session(`s${ended++}`), undefined);
      await delay(40);
    }
    const wanted = (performance.now() - began) / 100;
    expect(told().length, 'no more often than is wanted').toBeLessThanOrEqual(wanted + 1);
  });

  it('as often as the one that wants it most, whichever connected last', async () => {
    const { reporter, messages } = start();
    const [often, seldom] = [session('often'), session('seldom')];
    reporter.add(often, 100);
    reporter.add(seldom, 30_000);
    await expect.poll(() => messages.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(3);
    expect(messages.at(-1)).toHaveLength(2);
    reporter.end(often, undefined);
    await expect.poll(() => reporter.owed).toBe(0);
    // One report may have been due before its end.
    await delay(300);
    const before = messages.length;
    await delay(500);
    expect(messages).toHaveLength(before);
  });

  it('in time from the first on, although others wait for longer', async () => {
    const { reporter, messages } = start();
    reporter.add(session('seldom'), 30_000);
    reporter.add(session('often'), 100);
    await expect.poll(() => messages.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(2);
  });

  it('with none open and none owed nothing is sent and no timer waits', async () => {
    const { reporter, messages } = start();
    const a = session('a');
    reporter.add(a, 100);
    reporter.end(a, undefined);
    await expect.poll(() => reporter.owed).toBe(0);
    const before = messages.length;
    await delay(350);
    expect(messages).toHaveLength(before);
  });
});

describe('a final report', () => {
  it('goes at once, with its reason, and no older one after it', async () => {
    const { reporter, messages } = start();
    const a = session('a', 500);
    reporter.add(a, 30_000);
    reporter.end(a, 'timed_out');
    await expect.poll(() => reporter.owed).toBe(0);
    expect(messages).toEqual([
      [{ sessionId: 'a', connectionId: 'c-a', streamedMs: 500n, ended: true, reason: 'timed_out' }],
    ]);
  });

  it('waits for a message under way, and is the last of its session', async () => {
    const { reporter, messages, plane } = start();
    const { go } = hold(plane);
    const a = session('a', 100);
    reporter.add(a, 100);
    await expect.poll(() => messages.length).toBe(1);
    a.streamedMs = 180;
    reporter.end(a, undefined);
    await delay(50);
    expect(messages).toHaveLength(1);
    go();
    await expect.poll(() => reporter.owed).toBe(0);
    expect(messages.flat().at(-1)).toMatchObject({ streamedMs: 180n, ended: true });
  });

  it('is kept while the control plane is down, and told once it is back', async () => {
    const { reporter, messages, plane } = start();
    plane.down = true;
    const open = session('open');
    reporter.add(open, 100);
    for (let i = 0; i < 20; i++) reporter.end(session(`s${i}`, i), undefined);
    await delay(400);
    expect(reporter.owed).toBe(20);
    expect(messages.length, 'not again and again').toBeLessThan(12);
    plane.down = false;
    await expect.poll(() => reporter.owed).toBe(0);
    const ended = messages.findLast((reports) => reports.some((report) => report.ended));
    expect(ended?.map(({ streamedMs }) => Number(streamedMs))).toEqual([...Array(20).keys()]);
  });

  it('is not taken before it has its verdict', async () => {
    const { reporter, messages, plane } = start();
    plane.takes = 1;
    reporter.end(session('a'), undefined);
    reporter.end(session('b'), undefined);
    await expect.poll(() => reporter.owed).toBe(0);
    expect(messages.flat().filter(({ sessionId }) => sessionId === 'b').length).toBeGreaterThan(0);
  });

  it('too many: the oldest is given up', async () => {
    const { reporter, messages, plane } = start();
    plane.down = true;
    const names = Array.from({ length: MAX_OWED + 2 }, (_, i) => `s${i}`);
    for (const name of names) reporter.end(session(name), undefined);
    expect(reporter.owed).toBe(MAX_OWED);
    await expect.poll(() => messages.length).toBeGreaterThan(0);
    const before = messages.length;
    plane.down = false;
    expect(await reporter.close(20_000)).toBe(0);
    const taken = new Set(messages.slice(before).flatMap((sent) => sent.map(({ sessionId }) => sessionId)));
    expect(taken).toEqual(new Set(names.slice(2)));
  });
});

describe('closing', () => {
  it('tries until all are taken', async () => {
    const { reporter, plane } = start();
    plane.down = true;
    reporter.end(session('a'), undefined);
    setTimeout(() => {
      plane.down = false;
    }, 150);
    expect(await reporter.close(20_000)).toBe(0);
  });

  it('or until the time is up, and says how many are lost', async () => {
    const { reporter, plane } = start();
    plane.down = true;
    reporter.end(session('a'), undefined);
    expect(await reporter.close(200)).toBe(1);
  });
});
