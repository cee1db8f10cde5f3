import { describe, expect, it } from 'vitest';
import { CutDetector } from './cuts.ts';
import type { Frame } from './frame-part.ts';

const [width, height] = [192, 108];

function frame(brightness: (x: number, y: number) => number): Frame {
  const data = new Uint8Array((width * height * 3) / 2).fill(128);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) data[y * width + x] = brightness(x, y);
  return { width, height, data };
}

/** A landscape with columns that is brighter at the top. */
const columns = (shift: number, light = 1) =>
  frame((x, y) => light * (200 - y + 40 * Math.sin((x + shift) / 7)));
/** The same landscape, brighter at the bottom. */
const turned = () => frame((x, y) => 92 + y + 40 * Math.sin(x / 7));

describe('cuts', () => {
  it('are seen where the picture changes, also to one of the same brightness', () => {
    const cuts = new CutDetector();
    const shots = [columns(0), columns(1), turned(), turned(), columns(5)];
    expect(shots.map((shot) => cuts.isCut(shot))).toEqual([false, false, true, false, true]);
  });

  it('are not seen in quick camera moves and in light that comes up', () => {
    const cuts = new CutDetector();
    const moving = Array.from({ length: 12 }, (_, i) => columns(9 * i, 0.7 + 0.025 * i));
    expect(moving.map((shot) => cuts.isCut(shot))).toEqual(Array(12).fill(false));
  });
});
