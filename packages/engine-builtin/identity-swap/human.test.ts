import type { Picture } from '@semblance/engine-api/picture';
import { figurePoints, STANDING } from '@semblance/testkit/engine-builtin/identity-swap/figure';
import type { Face } from '@semblance/vision/face-mesh';
import type { Person, PersonFinder } from '@semblance/vision/person';
import { describe, expect, it } from 'vitest';
import { HumanCheck, mayBeHuman } from './human.ts';

const PICTURE: Picture = { width: 400, height: 600, channels: 3, data: new Uint8Array(400 * 600 * 3) };
const RESTLESS = 0.05;
const CALM = 0.02;

/** Returns a body of a height in pixels, from the front or from behind. */
function body({ height = 540, behind = false } = {}): Person {
  const points = figurePoints({ ...STANDING, x: 200, y: 580, height }).map((point) =>
    behind ? { ...point, x: 400 - point.x } : point,
  );
  const square = { x: 200, y: 300, size: 600, angle: 0 };
  return { score: 1, points, mask: { side: 1, data: new Uint8Array(1), region: square }, next: square };
}

/** Returns networks that see a number of faces, and a body that moves so much when its square is disturbed. */
function seeing(faces: number, ...unrest: number[]) {
  let looks = 0;
  const people = { unrest: async () => unrest[looks++ % unrest.length] as number } as unknown as PersonFinder;
  const found = Array.from({ length: faces }, () => ({}) as Face);
  return { people, faces: { findUpright: async () => found }, checkpoint: () => undefined };
}

describe('a body', () => {
  it('that looks here without a human face is none of a human when another one is seen in each square', async () => {
    expect(await mayBeHuman(PICTURE, body(), seeing(0, RESTLESS))).toBe(false);
  });

  it('is one of a human when it stays, or beside a human face', async () => {
    expect(await mayBeHuman(PICTURE, body(), seeing(0, CALM))).toBe(true);
    expect(await mayBeHuman(PICTURE, body(), seeing(1, RESTLESS))).toBe(true);
  });

  it('may be one where no face would be seen: from behind, and far away', async () => {
    expect(await mayBeHuman(PICTURE, body({ behind: true }), seeing(0, RESTLESS))).toBe(true);
    expect(await mayBeHuman(PICTURE, body({ height: 150 }), seeing(0, RESTLESS))).toBe(true);
  });
});

describe('a video', () => {
  /** Looks at frames of which each shows a body. */
  async function video(frames: number, ...unrest: number[]): Promise<void> {
    const check = new HumanCheck(seeing(0, ...unrest));
    for (let index = 0; index < frames; index++) await check.look(index, () => PICTURE, body());
    check.decide();
  }

  it('is refused when most looks show no human', async () => {
    const refusal = { code: 'face_not_detected', message: expect.stringContaining('video_key') };
    await expect(video(75, RESTLESS)).rejects.toMatchObject(refusal);
    await expect(video(1, RESTLESS)).rejects.toMatchObject(refusal);
    await expect(video(75, RESTLESS, RESTLESS, CALM)).rejects.toMatchObject(refusal);
  });

  it('passes when half of the looks show one, or none was taken', async () => {
    await video(75, CALM, RESTLESS);
    await video(75, CALM);
    new HumanCheck(seeing(0, RESTLESS)).decide();
  });

  it('is refused early, and not looked at further', async () => {
    const check = new HumanCheck(seeing(0, RESTLESS));
    let frames = 0;
    const watch = async (): Promise<void> => {
      for (; frames < 1000; frames++) await check.look(frames, () => PICTURE, body());
    };
    await expect(watch()).rejects.toThrow('is no person');
    expect(frames).toBeLessThan(100);
  });
});
