import { type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { FACE_SIDES } from '@semblance/vision/face-regions';
import { describe, expect, it } from 'vitest';
import { type Newcomer, People } from './people.ts';

/** Returns a face of a width; no other property is used. */
function face(width: number): Face {
  const points = new Float32Array(POINTS * 3);
  points[FACE_SIDES[1] * 3] = width;
  return faceFromPoints(points, 1);
}

/** Returns a description of a person: `like` along the first axis, the rest along an axis of its own. */
function look(axis: number, like = 0.4): Float32Array {
  const out = new Float32Array(8);
  out[0] = like;
  out[axis] = Math.sqrt(1 - like * like);
  return out;
}

const HERS = Float32Array.of(1, 0, 0, 0, 0, 0, 0, 0);
const NOBODY = { people: [], widest: 0 };
const widths = (chosen: readonly { face: Face }[]): number[] => chosen.map((one) => one.face.width);
const newcomer = (width: number, seen?: Float32Array): Newcomer => ({ face: face(width), look: seen });

describe('who is swapped', () => {
  it('is decided by size when nobody is known', () => {
    const chosen = new People().choose([newcomer(100, HERS), newcomer(70, look(1)), newcomer(50)], 1, NOBODY);
    expect(widths(chosen)).toEqual([100, 70]);
  });

  it('stays so after a cut, however small the person is beside another', () => {
    const people = new People();
    people.choose([newcomer(100, HERS)], 1, NOBODY);
    expect(widths(people.choose([newcomer(100, look(1)), newcomer(40, HERS)], 2, NOBODY))).toEqual([40]);
  });

  it('is not the one left alone beside a known person, even when that one is alone later', () => {
    const people = new People();
    people.choose([newcomer(100, HERS), newcomer(50, look(1))], 1, NOBODY);
    expect(people.choose([newcomer(100, look(1))], 2, NOBODY)).toEqual([]);
    expect(widths(people.choose([newcomer(90, HERS)], 3, NOBODY))).toEqual([90]);
  });

  it('is decided by size in a shot that shows nobody known', () => {
    const people = new People();
    people.choose([newcomer(100, HERS)], 1, NOBODY);
    expect(widths(people.choose([newcomer(100, look(1))], 2, NOBODY))).toEqual([100]);
  });

  it('takes the one that is clearly the likeliest, but not one that is hardly likelier than another', () => {
    const chosen = (other: number): number[] => {
      const people = new People();
      people.choose([newcomer(100, HERS)], 1, NOBODY);
      return widths(people.choose([newcomer(100, look(1, other)), newcomer(40, look(2, 0.58))], 2, NOBODY));
    };
    expect(chosen(0.4)).toEqual([40]);
    // Nobody is known at that moment, so the larger face counts, and the other is too small beside it.
    expect(chosen(0.55)).toEqual([100]);
  });

  it('forgets whoever was not seen for longest where no more are remembered', () => {
    const people = new People({ most: 2 });
    people.choose([newcomer(100, HERS)], 1, NOBODY);
    expect(widths(people.choose([newcomer(100, look(1)), newcomer(40, HERS)], 2, NOBODY))).toEqual([40]);
    people.choose([newcomer(100, HERS), newcomer(50, look(2))], 3, NOBODY);
    expect(widths(people.choose([newcomer(100, look(3)), newcomer(40, HERS)], 4, NOBODY))).toEqual([40]);
    // She was left alone when first seen beside the other, and that person is known no more.
    expect(widths(people.choose([newcomer(100, look(1))], 5, NOBODY))).toEqual([100]);
  });

  it('does not forget those who are followed', () => {
    const people = new People({ most: 2 });
    const [{ person } = {}] = people.choose([newcomer(100, HERS)], 1, NOBODY);
    const open = { people: person ? [person] : [], widest: 100 };
    for (const axis of [1, 2, 3]) people.choose([newcomer(50, look(axis))], 1, open);
    expect(widths(people.choose([newcomer(100, look(4)), newcomer(40, HERS)], 2, NOBODY))).toEqual([40]);
  });

  it('remembers everybody of a video', () => {
    const people = new People();
    const axes = Array.from({ length: 300 }, (_, i) =>
      Float32Array.from({ length: 300 }, (_, k) => +(k === i)),
    );
    for (const [i, axis] of axes.entries()) people.choose([newcomer(100, axis)], i + 1, NOBODY);
    const beside = [newcomer(100, new Float32Array(300).fill(1)), newcomer(40, axes[0])];
    expect(widths(people.choose(beside, 400, NOBODY))).toEqual([40]);
  });

  it('counts everybody of a group that the camera pans over in one shot', () => {
    const people = new People();
    const [{ person } = {}] = people.choose([newcomer(100, HERS)], 1, NOBODY);
    const open = { people: person ? [person] : [], widest: 100 };
    expect(widths(people.choose([newcomer(95, look(1))], 1, open))).toEqual([95]);
    expect(people.choose([newcomer(95, look(2))], 2, open)).toEqual([]);
  });

  it('are one person where only one is to be swapped, and nobody else after a cut', () => {
    const people = new People({ single: true });
    const chosen = people.choose([newcomer(100, HERS), newcomer(90, look(1))], 1, NOBODY);
    expect(chosen.map(({ face }) => face.width)).toEqual([100]);
    expect(people.choose([newcomer(120, look(1))], 2, NOBODY)).toEqual([]);
    expect(people.choose([newcomer(110, look(2))], 2, NOBODY)).toEqual([]);
    expect(people.choose([newcomer(60, HERS)], 3, NOBODY)).toHaveLength(1);
  });

  it('are only the tracked person where one is to be swapped and a wider face comes', () => {
    const people = new People({ single: true });
    expect(people.choose([newcomer(200)], 1, { people: [], widest: 80 })).toEqual([]);
  });
});
