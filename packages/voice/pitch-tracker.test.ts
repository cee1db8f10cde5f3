import { mixed, noise, RATE, VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { describe, expect, it } from 'vitest';
import { Kernels } from './kernels/kernels.ts';
import { PitchTracker } from './pitch-tracker.ts';

/** Calls back for each frame with the number of samples so far. @param most largest number of samples per call */
function follow(
  tracker: PitchTracker,
  sound: Int16Array,
  onFrame: (heard: number) => void,
  most = Infinity,
): void {
  for (let at = 0; at < sound.length; ) {
    const part = Float32Array.from(
      sound.subarray(at, at + Math.min(most, tracker.room)),
      (sample) => sample / 32_768,
    );
    at += part.length;
    if (tracker.push(part, part.length)) onFrame(at);
  }
}

/** Returns the pitch of each frame. */
function track(sound: Int16Array, most?: number): number[] {
  const tracker = new PitchTracker(RATE, new Kernels());
  const out: number[] = [];
  follow(tracker, sound, () => out.push(tracker.frame.hz), most);
  return out;
}

describe('pitch tracker', () => {
  it.each([62, 75, 98, 130, 187, 240, 330, 470])('finds %i Hz in every vowel', (hz) => {
    for (const formants of Object.values(VOWELS)) {
      const frames = track(vowel({ hz, formants, seconds: 0.5 })).slice(25);
      for (const found of frames) expect(Math.abs(found / hz - 1)).toBeLessThan(0.01);
    }
  });

  it('follows a glide, 20 ms late', () => {
    const hz = (n: number) => 120 * (1 + 0.2 * Math.sin((2 * Math.PI * 1.7 * n) / RATE));
    const sound = vowel({ hz: 120, formants: VOWELS.ae, seconds: 1.5, glide: 0.2 });
    const tracker = new PitchTracker(RATE, new Kernels());
    let frames = 0;
    follow(tracker, sound, (n) => {
      if (n < RATE / 5) return;
      frames++;
      expect(Math.abs(tracker.frame.hz / hz(n - tracker.lag) - 1)).toBeLessThan(0.02);
    });
    expect(frames).toBeGreaterThan(300);
    expect(tracker.lag / RATE).toBeLessThan(0.021);
  });

  it('finds the same however the sound is cut', () => {
    const sound = vowel({ hz: 130, formants: VOWELS.a, seconds: 0.3 });
    expect(track(sound, 1)).toEqual(track(sound));
    expect(track(sound, 77)).toEqual(track(sound));
  });

  it('holds the octave in noise', () => {
    const frames = track(mixed(vowel({ hz: 110, formants: VOWELS.i, seconds: 2 }), noise(2, 0.03))).slice(25);
    const right = frames.filter((found) => Math.abs(found / 110 - 1) < 0.03).length;
    expect(right / frames.length).toBeGreaterThan(0.97);
  });

  it('hears no voice in noise, in silence and in a steady offset', () => {
    for (const sound of [
      noise(2, 0.2),
      noise(2, 0.0005),
      new Int16Array(RATE),
      new Int16Array(RATE).fill(9_000),
    ]) {
      expect(
        track(sound)
          .slice(50)
          .every((hz) => hz === 0),
      ).toBe(true);
    }
  });
});
