import { describe, expect, it } from 'vitest';
import { medianPitch, pitchOf } from './pitch.ts';

const RATE = 16_000;

/** A voice-like tone: ten harmonics that fall, from one pitch to another. */
function glide(from: number, to: number, seconds = 0.5): Float32Array {
  let phase = 0;
  return Float32Array.from({ length: seconds * RATE }, (_, i) => {
    phase += (2 * Math.PI * (from + ((to - from) * i) / (seconds * RATE))) / RATE;
    let sum = 0;
    for (let k = 1; k <= 10; k++) sum += Math.sin(k * phase) / k;
    return sum / 3;
  });
}

describe('the pitch of speech', () => {
  it.each([70, 110, 150, 220, 350])('of %i Hz is found, not half or twice of it', (hz) => {
    expect(Math.abs((medianPitch(glide(hz, hz), RATE) ?? 0) / hz - 1)).toBeLessThan(0.02);
  });

  it('follows a glide', () => {
    const points = pitchOf(glide(100, 200), RATE);
    for (const { seconds, hz } of points) expect(Math.abs(hz / (100 + 200 * seconds) - 1)).toBeLessThan(0.05);
    expect(points.length).toBeGreaterThan(30);
  });

  it('is none in noise and silence', () => {
    let state = 1;
    const noise = Float32Array.from({ length: RATE }, () => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return state / 2 ** 31 - 1;
    });
    expect(medianPitch(new Float32Array(RATE), RATE)).toBeUndefined();
    expect(pitchOf(noise, RATE).length).toBeLessThan(10);
  });
});
