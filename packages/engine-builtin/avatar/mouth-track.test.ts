import { BILABIALS, type Phone, SOUNDS, type Sound } from '@semblance/speech/sounds';
import { describe, expect, it } from 'vitest';
import { FaceTrack } from './face-track.ts';
import { type MouthCommand, MouthTrack } from './mouth-track.ts';

/** Returns sounds of 100 ms each with silence around them; a space is a silence. */
function phones(sounds: string, each = 0.1): Phone[] {
  const names = ['', ...sounds.split(' '), ''];
  return names.map((name, i) => ({
    sound: name === '' || name === '_' ? undefined : (name as Sound),
    start: 0.5 + each * (i - 1) - (i === 0 ? 0.5 - each : 0),
    end: 0.5 + each * i + (i === names.length - 1 ? 0.5 : 0),
    ...(/^[aeiou]/.test(name) ? { loudness: 1 + (i % 3) ** 2 / 3 } : {}),
  }));
}

function frames(track: MouthTrack, seconds: number, rate = 25): MouthCommand[] {
  return Array.from({ length: Math.floor(seconds * rate) }, (_, i) => track.at((i + 0.5) / rate, 1 / rate));
}

describe('a speaking mouth', () => {
  it('is at rest in silence, before and after', () => {
    const all = frames(new MouthTrack(phones('aa m aa')), 1.3);
    for (const one of [all[0], all.at(-1)]) expect(one?.rest).toBeGreaterThan(0.99);
    expect(Math.min(...all.map(({ rest }) => rest))).toBeLessThan(0.05);
  });

  it.each([...BILABIALS])('touches its lips in every %s, however short, and opens around it', (sound) => {
    for (const each of [0.03, 0.05, 0.1]) {
      for (let shift = 0; shift < 0.04; shift += 0.007) {
        const row = phones(`aa ${sound} aa`, each).map((one) => ({
          ...one,
          start: Math.max(0, one.start + shift),
          end: one.end + shift,
        }));
        const all = frames(new MouthTrack(row), 1.5);
        const closed = all.filter((one) => one.closed);
        expect(closed.length).toBeGreaterThanOrEqual(1);
        expect(closed.length).toBeLessThanOrEqual(Math.ceil(each * 25) + 1);
        for (const { open, rest } of closed) expect([open, rest]).toEqual([0, 0]);
      }
    }
    const wide = frames(new MouthTrack(phones(`aa ${sound} aa`, 0.15)), 1.5);
    expect(Math.max(...wide.map(({ open, rest }) => open * (1 - rest)))).toBeGreaterThan(0.2);
  });

  it('rounds for oo, spreads for ee, and has its lower lip at the teeth for f', () => {
    const middle = (sound: string) => new MouthTrack(phones(sound)).at(0.55, 0);
    expect(middle('uw').round).toBeGreaterThan(0.8);
    expect(middle('iy').spread).toBeGreaterThan(0.6);
    expect(middle('f').tuck).toBeGreaterThan(0.8);
    expect(middle('f').open).toBeLessThan(0.04);
    expect(middle('aa').open).toBeGreaterThan(4 * middle('s').open);
  });

  it('gives a sound that the tongue makes its neighbours’ lips', () => {
    const at = (sounds: string) => new MouthTrack(phones(sounds)).at(0.65, 0);
    expect(at('uw t uw').round).toBeGreaterThan(at('iy t iy').round + 0.4);
    expect(at('iy t iy').spread).toBeGreaterThan(at('uw t uw').spread + 0.3);
    expect(at('aa k aa').open).toBeGreaterThan(at('iy k iy').open);
  });

  it('never jumps, and keeps within what a mouth can do', () => {
    const row = phones(SOUNDS.join(' _ _ '), 0.08);
    const track = new MouthTrack(row);
    let last: MouthCommand | undefined;
    for (let t = 0; t < (row.at(-1)?.end ?? 0); t += 0.005) {
      const now = track.at(t, 0);
      for (const name of ['open', 'spread', 'round', 'tuck', 'rest'] as const) {
        expect(now[name]).toBeGreaterThanOrEqual(0);
        expect(now[name]).toBeLessThanOrEqual(1);
      }
      // Lips move at most 20 cm/s: 16 mm, or 0.25 IOD, in 80 ms.
      const gap = (one: MouthCommand) => one.open * (1 - one.rest);
      if (last) expect(Math.abs(gap(now) - gap(last))).toBeLessThan(0.04);
      last = now;
    }
  });
});

describe('a speaking face', () => {
  const seconds = 60;
  const row = phones(Array.from({ length: 58 }, () => 'aa m iy t _ _ _ ow n _').join(' '));
  const track = new FaceTrack(row, seconds, 'a script');
  const all = Array.from({ length: seconds * 25 }, (_, i) => track.at((i + 0.5) / 25));

  it('blinks as often as people do, wholly, and not at regular times', () => {
    const waits = track.blinks.slice(1).map((at, i) => at - (track.blinks[i] as number));
    expect(track.blinks.length).toBeGreaterThan(12);
    expect(track.blinks.length).toBeLessThan(35);
    expect(Math.min(...waits)).toBeGreaterThan(1);
    expect(new Set(waits.map((wait) => wait.toFixed(1))).size).toBeGreaterThan(6);
    for (const at of track.blinks) {
      const lowest = Math.min(...all.filter((_, i) => Math.abs(i / 25 - at) < 0.3).map(({ eyes }) => eyes));
      expect(lowest).toBeLessThan(0.3);
    }
    const shut = all.filter(({ eyes }) => eyes < 0.5).length / all.length;
    expect(shut).toBeLessThan(0.08);
  });

  it('moves its head a little, all the time, and begins and ends as in the portrait', () => {
    for (const name of ['yaw', 'pitch', 'roll'] as const) {
      const values = all.map((one) => one[name]);
      expect(Math.max(...values.map(Math.abs))).toBeLessThan(0.12);
      expect(Math.max(...values) - Math.min(...values)).toBeGreaterThan(0.03);
      const steps = values.slice(1).map((value, i) => Math.abs(value - (values[i] as number)));
      expect(Math.max(...steps)).toBeLessThan(0.02);
    }
    for (const one of [all[0], all.at(-1)]) expect(Math.abs(one?.yaw ?? 1)).toBeLessThan(0.001);
  });

  it('raises its brows on some of the strongest vowels only', () => {
    expect(track.stresses.length).toBeGreaterThan(3);
    const times = track.stresses.map(({ at }) => at);
    const waits = times.slice(1).map((at, i) => at - (times[i] as number));
    expect(Math.min(...waits)).toBeGreaterThan(0.85);
    expect(Math.max(...all.map(({ brows }) => brows))).toBeGreaterThan(0.04);
  });

  it('nods on stresses: it rises a little, goes down, and comes up again more slowly', () => {
    const vowel = (start: number, loudness: number) => ({
      sound: 'aa' as const,
      start,
      end: start + 0.1,
      loudness,
    });
    const even = Array.from({ length: 20 }, (_, i) => vowel(0.3 * i, 0.8));
    expect(new FaceTrack(even, 6, 'seed').stresses).toEqual([]);
    const loud = new FaceTrack(
      even.map((one, i) => (i === 10 ? vowel(3, 1.6) : one)),
      6,
      'seed',
    );
    expect(loud.stresses).toHaveLength(1);
    expect(loud.stresses[0]?.at).toBeCloseTo(3.05, 5);
    const calm = new FaceTrack(even, 6, 'seed');
    // Random numbers for the stress come after those for the sway, so both sway alike.
    const nod = (at: number) => loud.at(at).pitch - calm.at(at).pitch;
    expect(nod(3.05)).toBeGreaterThan(0.025);
    expect(nod(3.05)).toBeLessThan(0.06);
    expect(nod(2.7)).toBeLessThan(-0.004);
    expect(nod(3.05 - 0.2)).toBeLessThan(nod(3.05 + 0.2));
    expect(Math.abs(nod(1.5))).toBeLessThan(1e-6);
  });

  it('breathes once in about four seconds, by a few thousandths of the picture', () => {
    const breaths = all.map(({ breath }) => breath);
    expect(Math.max(...breaths)).toBeCloseTo(0.04, 2);
    expect(Math.min(...breaths)).toBeGreaterThanOrEqual(0);
    const tops = breaths.filter(
      (value, i) => value > 0.03 && value >= (breaths[i - 1] ?? 1) && value > (breaths[i + 1] ?? 1),
    );
    expect(tops.length).toBeGreaterThanOrEqual(13);
    expect(tops.length).toBeLessThanOrEqual(17);
  });

  it('is the same for the same script, and another for another', () => {
    const at = (seed: string) => new FaceTrack(row, seconds, seed).at(7.3);
    expect(at('a script')).toEqual(track.at(7.3));
    expect(at('another')).not.toEqual(track.at(7.3));
  });

  it('does without sounds, and without time', () => {
    expect(new FaceTrack([], 0.2, '').at(0.1)).toMatchObject({ eyes: 1, brows: 0 });
    expect(new MouthTrack([]).at(0, 0.04).rest).toBe(1);
  });
});
