import { describe, expect, it } from 'vitest';
import { complete } from './complete.ts';
import { fuse } from './fuse.ts';
import { KIND } from './kinds.ts';

const [width, height] = [96, 80];

/** A picture of stripes, of which a square in the middle is hidden. */
function striped(shade: (x: number, y: number) => number) {
  const data = new Float32Array(width * height * 3);
  const kinds = new Uint8Array(width * height);
  for (let i = 0; i < kinds.length; i++) {
    const [x, y] = [i % width, Math.floor(i / width)];
    data.fill(shade(x, y), i * 3, i * 3 + 3);
    if (x >= 36 && x < 60 && y >= 28 && y < 52) kinds[i] = KIND.hidden;
  }
  const seen = { width, height, data: data.slice() };
  for (let i = 0; i < kinds.length; i++) if (kinds[i] === KIND.hidden) seen.data.fill(120, i * 3, i * 3 + 3);
  return { whole: data, seen, kinds };
}

function filled(picture: ReturnType<typeof striped>): { value: (i: number) => number; sources: Int32Array } {
  const { seen, kinds } = picture;
  const sources = complete(seen, kinds);
  if (!sources) throw new Error('too little is seen');
  const tone = fuse(seen, kinds, sources);
  const value = (i: number): number =>
    (seen.data[(sources[i] as number) * 3] as number) + (tone.data[i * 3] as number);
  return { value, sources };
}

const hidden = (kinds: Uint8Array): number[] => [...kinds.keys()].filter((i) => kinds[i] === KIND.hidden);

describe('a completed picture', () => {
  it.each([
    ['upright stripes', (x: number) => (x % 8 < 4 ? 60 : 180)],
    ['a shelf', (_: number, y: number) => (y > 36 && y < 44 ? 60 : 180)],
    ['slanting stripes', (x: number, y: number) => ((x + y) % 12 < 6 ? 60 : 180)],
  ] as const)('continues %s behind what hides them', (_, shade) => {
    const picture = striped(shade);
    const { value } = filled(picture);
    const wrong = hidden(picture.kinds).filter(
      (i) => Math.abs(value(i) - (picture.whole[i * 3] as number)) > 30,
    );
    expect(wrong.length).toBeLessThan(0.15 * hidden(picture.kinds).length);
  });

  it('has no steps in a wall whose light falls off', () => {
    const picture = striped((x, y) => 60 + x + 0.5 * y);
    const { value } = filled(picture);
    for (const i of hidden(picture.kinds)) {
      expect(Math.abs(value(i) - (picture.whole[i * 3] as number))).toBeLessThan(8);
    }
  });

  it('copies only what may be copied, and the same each time', () => {
    const picture = striped((x, y) => ((x * 7 + y * 13) % 50) * 4);
    for (let i = 0; i < picture.kinds.length; i++) if (i % width > 70) picture.kinds[i] = KIND.context;
    const { sources } = filled(picture);
    for (let i = 0; i < sources.length; i++) {
      if (picture.kinds[i] !== KIND.hidden) expect(sources[i]).toBe(-1);
      else expect(picture.kinds[sources[i] as number]).toBe(KIND.source);
    }
    expect(filled(picture).sources).toEqual(sources);
  });

  it('is none when too little is seen', () => {
    const picture = striped(() => 100);
    picture.kinds.fill(KIND.ignored, 0, 40 * width);
    picture.kinds.fill(KIND.hidden, 40 * width);
    expect(complete(picture.seen, picture.kinds)).toBeUndefined();
  });
});
