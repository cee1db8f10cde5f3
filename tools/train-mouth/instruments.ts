import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { music } from '@semblance/testkit/sound/augment';
import { normal, pick, type Random } from '@semblance/testkit/sound/random';
import { harmonics, play, sine, strike } from './notes.ts';

/** Synthesises a sound without speech, of a length in seconds. */
export type Wordless = (seconds: number, random: Random) => Float32Array;

const SCALES = [
  [0, 2, 4, 5, 7, 9, 11],
  [0, 2, 3, 5, 7, 8, 10],
  [0, 3, 5, 7, 10],
] as const;
const between = (random: Random, low: number, high: number): number => low + (high - low) * random();
const silence = (seconds: number): Float32Array => new Float32Array(Math.round(seconds * SAMPLE_RATE));
const hzOf = (note: number): number => 55 * 2 ** (note / 12);

/** Held chords of an organ or a string section, with a slow tremolo. */
const pads: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const [length, exponent, odd] = [between(random, 0.8, 3), between(random, 0.8, 2), random() < 0.4];
  const [rate, depth] = [between(random, 3, 7), random() < 0.5 ? between(random, 0, 0.5) : 0];
  const root = Math.floor(between(random, 10, 26));
  for (let start = 0; start < seconds; start += length) {
    const base = root + pick(random, pick(random, SCALES));
    for (const step of [0, pick(random, [3, 4]), 7, pick(random, [10, 11, 12])])
      for (const detune of [-0.06, 0.05]) {
        const hz = hzOf(base + step + detune);
        const wave = harmonics(hz, exponent, odd);
        play(out, {
          start,
          seconds: length * 1.1,
          gain: 0.05,
          hz: () => hz,
          attack: between(random, 0.02, 0.3),
          decay: 9,
          shape: (phase, t) => wave(phase) * (1 - depth * (0.5 + 0.5 * sine(rate * t))),
        });
      }
  }
  return out;
};

/** Quick broken chords of a synthesiser, over a bass. */
const arpeggio: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const [step, exponent, odd] = [between(random, 0.09, 0.3), between(random, 0.7, 1.6), random() < 0.5];
  const root = Math.floor(between(random, 12, 30));
  const scale = pick(random, SCALES);
  let bar = 0;
  for (let start = 0, i = 0; start < seconds; start += step, i++) {
    if (i % 8 === 0) bar = pick(random, scale);
    const hz = hzOf(root + bar + (pick(random, [0, 4, 7, 12, 16, 19]) as number));
    const wave = harmonics(hz, exponent, odd);
    play(out, {
      start,
      seconds: step * between(random, 0.7, 2),
      gain: 0.12,
      hz: () => hz,
      shape: wave,
      attack: 0.004,
      decay: between(random, 0.06, 0.5),
    });
    if (i % 4 !== 0) continue;
    const low = hzOf(root + bar - 12);
    play(out, {
      start,
      seconds: step * 4,
      gain: 0.25,
      hz: () => low,
      shape: harmonics(low, 1.5, false),
      attack: 0.01,
      decay: 0.5,
    });
  }
  return out;
};

/** A bass alone, plucked or held, with occasional slides. */
const bass: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const [step, exponent] = [between(random, 0.15, 0.6), between(random, 0.8, 2.2)];
  const root = Math.floor(between(random, -4, 8));
  const scale = pick(random, SCALES);
  for (let start = 0; start < seconds; start += step * pick(random, [1, 1, 2])) {
    if (random() < 0.15) continue;
    const hz = hzOf(root + pick(random, scale));
    const slide = random() < 0.2 ? between(random, 0.8, 1.2) : 1;
    play(out, {
      start,
      seconds: step * between(random, 0.6, 1.8),
      gain: 0.3,
      shape: harmonics(hz, exponent, false),
      hz: (t) => hz * slide ** Math.min(1, t / step),
      attack: 0.006,
      decay: between(random, 0.15, 1),
    });
  }
  return out;
};

/** A drum pattern of kick, snare and cymbals. */
const drums: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const step = between(random, 0.1, 0.22);
  const pattern = Array.from({ length: 16 }, (_, i) => ({
    kick: i % 8 === 0 || random() < 0.2,
    snare: i % 8 === 4 || random() < 0.08,
    hat: random() < 0.7,
  }));
  const [low, ring, hiss] = [
    between(random, 45, 80),
    between(random, 0.05, 0.2),
    between(random, 0.015, 0.08),
  ];
  for (let i = 0; i * step < seconds; i++) {
    const { kick, snare, hat } = pattern[i % 16] as (typeof pattern)[number];
    const start = i * step;
    if (kick) {
      const hz = (t: number): number => low * (1 + 3 * Math.exp(-t / 0.03));
      play(out, { start, seconds: 0.4, gain: 0.6, hz, shape: sine, attack: 0.002, decay: 0.12 });
    }
    if (snare) strike(out, { start, gain: 0.3, decay: ring, tilt: 0.2, random });
    if (hat) strike(out, { start, gain: 0.12, decay: hiss, tilt: 0.95, random });
  }
  return out;
};

/** Plucked strings (Karplus and Strong 1983). */
const strings: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const [step, damping] = [between(random, 0.12, 0.45), between(random, 0.985, 0.999)];
  const root = Math.floor(between(random, 8, 24));
  const scale = pick(random, SCALES);
  for (let start = 0; start < seconds; start += step) {
    const notes = random() < 0.3 ? [0, 4, 7, 12] : [0];
    const base = root + pick(random, scale);
    for (const note of notes) {
      const period = Math.max(4, Math.round(SAMPLE_RATE / hzOf(base + note)));
      const ring = Float32Array.from({ length: period }, () => 0.35 * normal(random));
      const first = Math.round((start + (notes.length > 1 ? 0.015 * note : 0) / 4) * SAMPLE_RATE);
      const count = Math.min(out.length - first, SAMPLE_RATE * 2);
      for (let i = 0, k = 0; i < count; i++, k = (k + 1) % period) {
        const value = ring[k] as number;
        out[first + i] = (out[first + i] as number) + value;
        ring[k] = damping * 0.5 * (value + (ring[(k + 1) % period] as number));
      }
    }
  }
  return out;
};

/** Bells and electric pianos, by frequency modulation (Chowning 1973). */
const bells: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const [ratio, index] = [pick(random, [1, 2, 3.5, 1.41, 7]), between(random, 1, 6)];
  const [step, decay] = [between(random, 0.15, 0.6), between(random, 0.2, 1.2)];
  const root = Math.floor(between(random, 18, 36));
  const scale = pick(random, SCALES);
  for (let start = 0; start < seconds; start += step) {
    if (random() < 0.15) continue;
    const hz = hzOf(root + pick(random, scale));
    play(out, {
      start,
      seconds: decay * 2,
      gain: 0.2,
      hz: () => hz,
      attack: 0.003,
      decay,
      shape: (phase, t) =>
        Math.sin(2 * Math.PI * phase + index * Math.exp(-t / decay) * Math.sin(2 * Math.PI * phase * ratio)),
    });
  }
  return out;
};

/** A melody with vibrato and slides, as of a flute, a violin or a horn. */
const melody: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const [exponent, odd, breath] = [between(random, 0.7, 2.5), random() < 0.2, random() < 0.4 ? 0.03 : 0];
  const [rate, depth] = [between(random, 4, 7), random() < 0.7 ? between(random, 0, 0.02) : 0];
  const root = Math.floor(between(random, 16, 34));
  const scale = pick(random, SCALES);
  let last = hzOf(root);
  for (let start = 0; start < seconds; ) {
    const length = pick(random, [0.18, 0.25, 0.35, 0.5, 0.8]) * between(random, 0.8, 1.25);
    if (random() > 0.12) {
      const hz = hzOf(root + pick(random, scale) + pick(random, [0, 0, 12]));
      const [from, slide] = [last, random() < 0.3 ? 0.08 : 0.005];
      const wave = harmonics(hz, exponent, odd);
      play(out, {
        start,
        seconds: length * 1.02,
        gain: 0.25,
        attack: between(random, 0.01, 0.08),
        decay: 4,
        hz: (t) => hz * (from / hz) ** Math.max(0, 1 - t / slide) * (1 + depth * sine(rate * t)),
        shape: (phase) => wave(phase) + breath * normal(random),
      });
      last = hz;
    }
    start += length;
  }
  return out;
};

/** Tones through a filter that opens and closes. No other instrument sounds more like speech. */
const wah: Wordless = (seconds, random) => {
  const dry = pick(random, [arpeggio, melody, pads, strings])(seconds, random);
  const [rate, low, high] = [between(random, 0.5, 4), between(random, 250, 500), between(random, 900, 2600)];
  const quality = between(random, 2, 6);
  let [band, pass] = [0, 0];
  // A state-variable filter (Chamberlin 1985).
  return dry.map((x, i) => {
    const share = 0.5 + 0.5 * sine((rate * i) / SAMPLE_RATE);
    const f = 2 * Math.sin((Math.PI * low * (high / low) ** share) / SAMPLE_RATE);
    pass += f * band;
    band += f * (x - pass - band / quality);
    return 0.3 * x + band;
  });
};

/** Several instruments together, as in most music. */
export const band: Wordless = (seconds, random) => {
  const players: readonly Wordless[] = [pads, arpeggio, bass, drums, strings, bells, melody, music];
  const out = silence(seconds);
  for (let n = 2 + Math.floor(3 * random()); n > 0; n--) {
    const gain = between(random, 0.3, 1);
    pick(random, players)(seconds, random).forEach((x, i) => {
      out[i] = (out[i] as number) + gain * x;
    });
  }
  return out;
};

/** Noise of every colour, steady or in gusts, rain and applause. */
const noise: Wordless = (seconds, random) => {
  const [colour, gusts] = [pick(random, [0, 0.5, 0.9, 0.98]), random() < 0.5 ? between(random, 0.2, 3) : 0];
  const drops = random() < 0.3 ? between(random, 5, 60) / SAMPLE_RATE : 0;
  const phase = random();
  let [state, ring] = [0, 0];
  return silence(seconds).map((_, i) => {
    state = colour * state + normal(random) * Math.sqrt(1 - colour * colour);
    if (drops && random() < drops) ring = 1;
    ring *= 0.997;
    const gust = gusts ? 0.55 + 0.45 * sine((gusts * i) / SAMPLE_RATE + phase) : 1;
    return 0.1 * state * (drops ? 0.2 + 3 * ring : gust);
  });
};

/** Beeps, sirens, engine hum. */
const machines: Wordless = (seconds, random) => {
  const out = silence(seconds);
  const kind = Math.floor(3 * random());
  const [hz, rate] = [
    between(random, kind === 2 ? 40 : 400, kind === 2 ? 140 : 1800),
    between(random, 0.3, 3),
  ];
  if (kind === 0) {
    const length = between(random, 0.05, 0.6);
    for (let start = 0; start < seconds; start += length * between(random, 1.5, 3))
      play(out, { start, seconds: length, gain: 0.3, hz: () => hz, shape: sine, attack: 0.004, decay: 9 });
    return out;
  }
  const swing = kind === 1 ? between(random, 0.2, 0.6) : 0.03;
  const wave = harmonics(hz, kind === 1 ? 2 : 0.8, false);
  play(out, {
    start: 0,
    seconds,
    gain: 0.2,
    attack: 0.01,
    decay: 99,
    hz: (t) => hz * (1 + swing * sine(rate * t)),
    shape: (phase) => wave(phase) + 0.05 * normal(random),
  });
  return out;
};

/** All sounds by name, for measurements. */
export const WORDLESS: Readonly<Record<string, Wordless>> = {
  chords: music,
  pads,
  arpeggio,
  bass,
  drums,
  strings,
  bells,
  melody,
  wah,
  band,
  noise,
  machines,
};
