import { PICTURE_READY, VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { describe, expect, it } from 'vitest';
import { createInput } from './input.ts';
import { mediaFormatOf } from './media-format.ts';

/** A tenth of a second. */
const PIECE = Buffer.alloc(9_600);

/** Creates an input whose agent answers as the test says. */
function start() {
  const calls: string[] = [];
  const sent: bigint[] = [];
  const client = { isHeld: false, heldUntil: 0, heldMs: 0 };
  const unread: number[] = [];
  const input = createInput({
    ws: { pause: () => void calls.push('pause'), resume: () => void calls.push('resume') },
    relay: { send: (sequence) => void sent.push(sequence) },
    format: mediaFormatOf(VOICE_READY),
    clock: () => 0,
    output: {
      get isHoldingRelay() {
        return client.isHeld;
      },
      heldUntil: (now) => (client.isHeld ? now : client.heldUntil),
      heldMs: () => client.heldMs,
      onInputPaused() {},
      onInputResumed() {},
    },
    unread: (ms) => void unread.push(ms),
  });
  return { input, calls, sent, client, unread };
}

describe('sound whose client does not read', () => {
  it('is taken for the ten seconds that it has, and no longer: its pongs come behind it', () => {
    const { input, calls, client } = start();
    client.isHeld = true;
    for (let tenths = 1; tenths < 120; tenths++) expect(input.push(PIECE, tenths * 100)).toBe(true);
    expect(input.push(PIECE, 12_000)).toBe(false);
    expect(calls).toEqual([]);
  });

  it('is made to wait for the agent once the client reads again', () => {
    const { input, calls, client } = start();
    client.isHeld = true;
    for (let n = 0; n < 80; n++) input.push(PIECE, 0);
    client.isHeld = false;
    expect(input.push(PIECE, 0)).toBe(true);
    expect(calls).toEqual(['pause']);
    input.answered(70n, 0);
    expect(calls).toEqual(['pause']);
    input.answered(72n, 0);
    expect(calls).toEqual(['pause', 'resume']);
  });
});

it('an agent that is not listened to, because the client does not read, is not late', () => {
  const { input, client } = start();
  for (let n = 0; n < 20; n++) input.push(PIECE, 1_000);
  expect(input.blockedFor(3_000)).toBe(2_000);
  client.isHeld = true;
  expect(input.blockedFor(9_000)).toBe(0);
  Object.assign(client, { isHeld: false, heldUntil: 9_000 });
  expect(input.blockedFor(9_500)).toBe(500);
  input.answered(1n, 9_600);
  expect(input.blockedFor(9_700)).toBe(100);
});

describe('how long a client was not read', () => {
  it('is told when it is read again: the time that the agent did not answer', () => {
    const { input, unread, calls } = start();
    for (let n = 0; n < 20; n++) input.push(PIECE, 1_000 + n);
    input.answered(5n, 3_000);
    expect(unread).toEqual([]);
    input.answered(11n, 9_019);
    expect(unread).toEqual([8_000]);
    expect(calls).toEqual(['pause', 'resume']);
    input.answered(20n, 9_500);
    expect(unread).toHaveLength(1);
  });

  it('is not what the client kept the agent waiting itself, by not reading', () => {
    const { input, unread, client } = start();
    client.heldMs = 400;
    for (let n = 0; n < 20; n++) input.push(PIECE, 1_000);
    client.heldMs = 5_400;
    input.answered(11n, 9_000);
    expect(unread).toEqual([3_000]);
  });
});

it('a picture that waits is not sent at the end, though there is room then', () => {
  const sent: bigint[] = [];
  const written: (() => void)[] = [];
  const input = createInput({
    ws: { pause() {}, resume() {} },
    relay: {
      send(sequence, _data, done) {
        sent.push(sequence);
        written.push(done);
      },
    },
    format: mediaFormatOf(PICTURE_READY),
    clock: () => 0,
    output: {
      isHoldingRelay: false,
      heldUntil: () => 0,
      heldMs: () => 0,
      onInputPaused() {},
      onInputResumed() {},
    },
    unread() {},
  });
  for (let n = 0; n < 5; n++) input.push(PIECE, 0);
  written[0]?.();
  expect(sent).toEqual([1n, 2n, 3n]);
  input.push(PIECE, 0);
  input.stop();
  for (const done of written) done();
  input.answered(1n, 0);
  expect(sent).toEqual([1n, 2n, 3n]);
});
