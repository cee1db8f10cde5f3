import type { VideoFrame } from '@semblance/media/types';
import { describe, expect, it } from 'vitest';
import { bounce } from './bounce.ts';

/** Returns a video whose frames contain their own number and begin at these times, in ms. */
function video(times: readonly number[]) {
  let open = 0;
  let decoded = 0;
  return {
    get open() {
      return open;
    },
    get decoded() {
      return decoded;
    },
    async *decode(): AsyncGenerator<VideoFrame> {
      open++;
      try {
        for (const [index, time] of times.entries()) {
          decoded++;
          yield { index, ptsUs: time * 1000, width: 2, height: 2, data: new Uint8Array(6).fill(index) };
        }
      } finally {
        open--;
      }
    },
  };
}

async function play(times: readonly number[], untilMs: number, held = 100, endMs = 0) {
  const source = video(times);
  const shown: [number, number][] = [];
  const frames = bounce({
    decode: source.decode,
    untilUs: untilMs * 1000,
    frameUs: 40_000,
    held,
    endUs: endMs * 1000,
  });
  for await (const { frame, startUs } of frames) shown.push([frame.data[0] as number, startUs / 1000]);
  return { shown, source };
}

describe('bounce', () => {
  it('ends a longer video where the sound ends', async () => {
    const { shown, source } = await play([0, 40, 80, 120], 90);
    expect(shown).toEqual([
      [0, 0],
      [1, 40],
      [2, 80],
    ]);
    expect(source.open).toBe(0);
  });

  it('plays a shorter video forth and back, with the distances that its frames have', async () => {
    const { shown } = await play([0, 40, 100, 140], 520);
    expect(shown).toEqual([
      ...[
        [0, 0],
        [1, 40],
        [2, 100],
        [3, 140],
      ],
      ...[
        [2, 180],
        [1, 220],
        [0, 280],
      ],
      ...[
        [1, 320],
        [2, 380],
        [3, 420],
      ],
      ...[
        [2, 460],
        [1, 500],
      ],
    ]);
  });

  it('decodes a video that can be held twice, however often it is played', async () => {
    const { shown, source } = await play([0, 40, 80], 4000, 3);
    expect(shown).toHaveLength(100);
    expect(shown.slice(0, 9).map(([frame]) => frame)).toEqual([0, 1, 2, 1, 0, 1, 2, 1, 0]);
    expect(source.decoded).toBe(6);
    const longer = await play([0, 40, 80, 120], 4000, 3);
    expect(longer.source.decoded).toBeGreaterThan(100);
  });

  it('holds no more frames than allowed on the way back', async () => {
    const times = Array.from({ length: 9 }, (_, i) => i * 40);
    const whole = await play(times, 1200);
    const parts = await play(times, 1200, 2);
    expect(parts.shown).toEqual(whole.shown);
    expect(parts.source.decoded).toBeGreaterThan(whole.source.decoded);
    expect(parts.source.open).toBe(0);
  });

  it.each([100, 2, 1])(
    'lets the last frame stand as long as in the video, and gives it again meanwhile (%i held)',
    async (held) => {
      const { shown, source } = await play([0, 40, 80], 640, held, 250);
      expect(shown).toEqual([
        ...[
          [0, 0],
          [1, 40],
          [2, 80],
          [2, 120],
          [2, 160],
          [2, 200],
        ],
        ...[
          [1, 250],
          [0, 290],
        ],
        ...[
          [1, 330],
          [2, 370],
          [2, 410],
          [2, 450],
          [2, 490],
        ],
        ...[
          [1, 540],
          [0, 580],
          [1, 620],
        ],
      ]);
      expect(source.open).toBe(0);
    },
  );

  it('ends while the last frame stands, when the sound does', async () => {
    const { shown } = await play([0, 40, 80], 170, 100, 5_000);
    expect(shown).toEqual([
      [0, 0],
      [1, 40],
      [2, 80],
      [2, 120],
      [2, 160],
    ]);
  });

  it.each([80, 0, 121, 138])('does not give a last frame again that ends at %i ms', async (endMs) => {
    const { shown } = await play([0, 40, 80], 150, 100, endMs);
    expect(shown.slice(2)).toEqual([
      [2, 80],
      [1, endMs > 80 ? endMs : 120],
    ]);
  });

  it('shows the only frame of a video again and again', async () => {
    const { shown } = await play([0], 130);
    expect(shown).toEqual([
      [0, 0],
      [0, 40],
      [0, 80],
      [0, 120],
    ]);
  });

  it.each([1, 0.011])(
    'does not show the only frame oftener than a screen does, were it over in %f ms',
    async (ms) => {
      const source = video([0]);
      let shown = 0;
      const frames = bounce({
        decode: source.decode,
        untilUs: 1_000_000,
        frameUs: ms * 1000,
        endUs: 0,
        held: 8,
      });
      for await (const { startUs } of frames) expect(startUs).toBe(16_000 * shown++);
      expect(shown).toBe(63);
    },
  );

  it('gives frames that the receiver may change', async () => {
    const source = video([0, 40, 80]);
    const seen: number[] = [];
    for await (const { frame } of bounce({
      decode: source.decode,
      untilUs: 400_000,
      frameUs: 40_000,
      endUs: 0,
      held: 8,
    })) {
      seen.push(frame.data[0] as number);
      frame.data.fill(99);
    }
    expect(seen).toEqual([0, 1, 2, 1, 0, 1, 2, 1, 0, 1]);
  });
});
