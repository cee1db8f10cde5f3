import { VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { expect, it } from 'vitest';
import { mediaFormatOf } from './media-format.ts';
import { createOutput } from './output.ts';

/** One second. */
const PIECE = Buffer.alloc(96_000);

it('knows for how long, in all, a client kept the agent from being listened to', () => {
  let now = 1_000;
  const calls: string[] = [];
  const flushes: (() => void)[] = [];
  const ws = {
    bufferedAmount: 0,
    send: (_data: Buffer, flushed: () => void) => void flushes.push(flushed),
  };
  const output = createOutput({
    ws: ws as never,
    pings: { send() {} },
    relay: { pause: () => void calls.push('pause'), resume: () => void calls.push('resume') },
    format: mediaFormatOf(VOICE_READY),
    clock: () => now,
    sent() {},
  });
  /** Fills the output from `at` on, for `ms`. */
  const hold = (at: number, ms: number) => {
    now = at;
    ws.bufferedAmount = 2 * PIECE.length;
    output.push(PIECE, now);
    expect([output.isHoldingRelay, output.heldUntil(now + 5)]).toEqual([true, now + 5]);
    now += ms;
    ws.bufferedAmount = 0;
    for (const flushed of flushes.splice(0)) flushed();
  };
  expect(output.heldMs(now)).toBe(0);
  hold(2_000, 300);
  expect([output.heldMs(2_300), output.heldMs(9_000)]).toEqual([300, 300]);
  hold(10_000, 50);
  expect([output.heldMs(20_000), output.heldUntil(20_000)]).toEqual([350, 10_050]);
  now = 30_000;
  ws.bufferedAmount = 2 * PIECE.length;
  output.push(PIECE, now);
  expect(output.heldMs(30_400), 'and while it is so').toBe(750);
  expect(calls).toEqual(['pause', 'resume', 'pause', 'resume', 'pause']);
});
