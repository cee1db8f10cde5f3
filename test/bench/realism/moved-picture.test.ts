import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { seeded } from '@semblance/testkit/sound/random';
import { pointOf } from '@semblance/vision/face-mesh';
import type { Plane } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { ANIMATION_LIMITS } from './animation-measures.ts';
import { eyeDistance } from './identity-measures.ts';
import { shoulderJump, specks } from './moved-clothes.ts';
import { backgroundChange, type Moved, strayEdges } from './moved-picture.ts';

const SIZE = { width: 360, height: 400, channels: 3 } as const;
const PERSON = { x: 180, head: 150, rx: 62, ry: 82, shoulders: 245 };

let portrait: Portrait;
let iod: number;

beforeAll(async () => {
  const [found] = await openPortraits(ASTRONAUT);
  if (!found) throw new Error('no portrait');
  // The mesh of a photograph, laid onto the drawn person.
  const { points } = found.face;
  const [chin, brow] = [pointOf(points, 152), pointOf(points, 10)];
  const scale = (1.7 * PERSON.ry) / (chin.y - brow.y);
  const moved = points.map((value, i) =>
    i % 3 === 0
      ? PERSON.x + (value - (chin.x + brow.x) / 2) * scale
      : i % 3 === 1
        ? PERSON.head + (value - (chin.y + brow.y) / 2) * scale
        : value * scale,
  );
  portrait = { ...found, face: { ...found.face, points: moved } };
  iod = eyeDistance(portrait.face);
});

const onPerson = (x: number, y: number, dx = 0): boolean =>
  ((x - PERSON.x - dx) / PERSON.rx) ** 2 + ((y - PERSON.head) / PERSON.ry) ** 2 < 1 ||
  (y > PERSON.shoulders && Math.abs(x - PERSON.x) < 150);

/** Draws a person before a wall, whose head is moved. @param wall level of the wall at a place */
function drawn(wall: (x: number, y: number) => number, dx = 0): { picture: Picture; person: Plane } {
  const random = seeded(7);
  const cloth = Array.from({ length: 40 * 50 }, () => 40 + 160 * random());
  const data = new Uint8Array(SIZE.width * SIZE.height * 3);
  const person = { ...SIZE, data: new Float32Array(SIZE.width * SIZE.height) };
  for (let i = 0; i < person.data.length; i++) {
    const [x, y] = [i % SIZE.width, Math.floor(i / SIZE.width)];
    const inside = onPerson(x, y, dx);
    person.data[i] = inside ? 1 : 0;
    const dress =
      y > PERSON.shoulders ? (cloth[(x / 9) | ((0 + Math.floor(y / 9) * 40) | 0)] as number) : 190;
    data.fill(inside ? dress : wall(x, y), i * 3, i * 3 + 3);
  }
  return { picture: { ...SIZE, data }, person };
}

const PLAIN = (): number => 90;
const FLAG = (x: number, y: number): number => ((x + y) % 24 < 12 ? 60 : 200);

function moved(wall: (x: number, y: number) => number, after = wall, dx = 0): Moved {
  const [still, frame] = [drawn(wall), drawn(after, dx)];
  const face = portrait.face;
  const points = face.points.map((value, i) => (i % 3 === 0 ? value + dx : value));
  return {
    still: still.picture,
    frame: frame.picture,
    people: { still: still.person, frame: frame.person },
    faces: { still: face, frame: { ...face, points } },
  };
}

/** Returns the frame with its pixels changed. */
function with_(
  from: Moved,
  change: (x: number, y: number, own: (x: number, y: number) => number) => number,
): Moved {
  const own = (x: number, y: number): number =>
    from.frame.data[
      (Math.min(SIZE.height - 1, y) * SIZE.width + Math.min(SIZE.width - 1, Math.max(0, x))) * 3
    ] as number;
  const data = new Uint8Array(from.frame.data.length);
  for (let i = 0; i < data.length / 3; i++)
    data.fill(change(i % SIZE.width, Math.floor(i / SIZE.width), own), i * 3, i * 3 + 3);
  return { ...from, frame: { ...from.frame, data } };
}

const most = (name: keyof typeof ANIMATION_LIMITS): number => ANIMATION_LIMITS[name][1];

describe('the background of an animated picture', () => {
  it('is unchanged behind a head that moves, and in a picture that moves as a whole', () => {
    const away = moved(FLAG, FLAG, 0.2 * iod);
    expect(backgroundChange(away)).toEqual({ far: 0, beside: 0 });
    const shaken = with_(moved(FLAG), (x, y, own) => own(x - 2, y));
    expect(backgroundChange(shaken).far).toBeLessThan(1);
  });

  it('is found bent far from the person, and beside it', () => {
    const bent = with_(moved(FLAG), (x, y, own) => own(x < 60 ? x + 3 : x, y));
    expect(backgroundChange(bent).far).toBeGreaterThan(most('background'));
    const beside = PERSON.x + PERSON.rx + 0.3 * iod;
    const dragged = with_(moved(FLAG), (x, y, own) =>
      Math.abs(x - beside) < 8 && y < 180 ? own(x + 5, y) : own(x, y),
    );
    expect(backgroundChange(dragged).beside).toBeGreaterThan(most('beside'));
    expect(backgroundChange(moved(FLAG)).beside).toBe(0);
  });

  it('is unchanged beside an earring that moves with the head', () => {
    const ring = (dx: number) => (x: number, y: number, own: (x: number, y: number) => number) =>
      Math.hypot(x - dx - PERSON.x - PERSON.rx - 0.35 * iod, y - PERSON.head - 10) < 6 ? 240 : own(x, y);
    const [still, frame] = [ring(0), ring(9)].map((drawing) => with_(moved(PLAIN), drawing));
    expect(backgroundChange({ ...(frame as Moved), still: (still as Moved).frame }).beside).toBe(0);
  });

  it('has no stray edges behind a head that moves before a plain wall or a flag', () => {
    expect(strayEdges(moved(PLAIN, PLAIN, 0.2 * iod))).toBe(0);
    expect(strayEdges(moved(FLAG, FLAG, 0.2 * iod))).toBe(0);
  });

  it('has stray edges where the old outline of the head stays', () => {
    const away = moved(PLAIN, PLAIN, 0.3 * iod);
    const ghost = with_(away, (x, y, own) => {
      const left = PERSON.x - PERSON.rx * Math.sqrt(Math.max(0, 1 - ((y - PERSON.head) / PERSON.ry) ** 2));
      return Math.abs(x - left) < 2 && y < PERSON.head ? 150 : own(x, y);
    });
    expect(strayEdges(ghost)).toBeGreaterThan(most('edges'));
  });
});

describe('the clothes of an animated picture', () => {
  const row = (x: number, y: number): boolean => y === 330 && x % 6 === 0 && x > 100 && x < 200;

  it('have no specks that the still has too', () => {
    const spotted = with_(moved(PLAIN), (x, y, own) => (row(x, y) ? own(x, y) + 40 : own(x, y)));
    expect(specks(moved(PLAIN))).toBe(0);
    expect(specks({ ...spotted, still: spotted.frame })).toBe(0);
  });

  it('have specks where the still has none', () => {
    const spotted = with_(moved(PLAIN), (x, y, own) => (row(x, y) ? own(x, y) + 40 : own(x, y)));
    expect(specks(spotted)).toBeGreaterThan(most('specks'));
  });
});

describe('the shoulders of an animated picture', () => {
  const lean = (of: (y: number) => number): number =>
    shoulderJump(
      with_(moved(PLAIN), (x, y, own) => (y > PERSON.shoulders ? own(x - Math.round(of(y)), y) : own(x, y))),
    );

  it('may lean', () => {
    expect(lean(() => 0)).toBe(0);
    expect(lean(() => 6)).toBe(0);
    expect(lean((y) => 6 - (y - PERSON.shoulders) / 30)).toBeLessThan(most('shoulders'));
  });

  it('are torn where one part leans and the next does not', () => {
    expect(lean((y) => (y < PERSON.shoulders + 75 ? 9 : 0))).toBeGreaterThan(most('shoulders'));
  });
});
