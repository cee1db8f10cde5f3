import { describe, expect, it } from 'vitest';
import { outputSize, uprightSize } from './size.ts';

describe('the size of an output', () => {
  it.each([
    [1920, 1080, 720, 1280, 720],
    [1080, 1920, 480, 480, 854],
    [1280, 720, 1080, 1280, 720],
    [1920, 1080, undefined, 1920, 1080],
    [854, 480, 480, 854, 480],
    [853, 479, 480, 852, 478],
    [3840, 2160, 1080, 1920, 1080],
    [4096, 100, 480, 4096, 100],
    [1000, 3, 480, 1000, 2],
  ])('of %i × %i at %s is %i × %i', (width, height, shorter, toWidth, toHeight) => {
    expect(outputSize({ width, height }, shorter)).toEqual({ width: toWidth, height: toHeight });
  });
});

describe('the size of an upright picture', () => {
  it.each([
    [720, 576, 16 / 15, 0, 768, 576],
    [720, 576, 64 / 45, 0, 1024, 576],
    [720, 480, 8 / 9, 0, 640, 480],
    [1440, 1080, 4 / 3, 0, 1920, 1080],
    [1920, 1080, 1, 1, 1080, 1920],
    [720, 576, 16 / 15, 3, 576, 768],
    [1919, 1079, 1, 0, 1918, 1078],
    [1, 1, 1, 0, 2, 2],
  ])('stored as %i × %i of aspect %d, turned %i times, is %i × %i', (width, height, aspect, turns, w, h) => {
    expect(uprightSize({ width, height }, aspect, turns)).toEqual({ width: w, height: h });
  });
});
