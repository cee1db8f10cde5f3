import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { normal, pick, type Random } from './random.ts';

/** Makes clean synthetic speech sound like a recording: tilt, room, telephone, noise, gain. */
export function disturb(samples: Float32Array, random: Random): Float32Array {
  let out: Float32Array = samples.slice();
  tilt(out, 0.6 * (random() - 0.5));
  if (random() < 0.3) out = room(out, random);
  if (random() < 0.25) telephone(out);
  const power = out.reduce((sum, x) => sum + x * x, 0) / Math.max(1, out.length);
  const snrDb = 12 + 30 * random();
  addNoise(out, Math.sqrt(power) * 10 ** (-snrDb / 20), random);
  const gain = 10 ** ((24 * random() - 18) / 20);
  return out.map((x) => Math.min(1, Math.max(-1, x * gain)));
}

/** Emphasises (positive) or damps (negative) high frequencies by a first-order filter. */
function tilt(samples: Float32Array, amount: number): void {
  let before = 0;
  for (let i = 0; i < samples.length; i++) {
    const x = samples[i] as number;
    samples[i] = x - amount * before;
    before = x;
  }
}

/** Adds a few early reflections and a decaying tail of sparse ones. */
function room(samples: Float32Array, random: Random): Float32Array {
  const taps = Array.from({ length: 24 }, () => {
    const delay = 0.004 + 0.12 * random();
    return { at: Math.round(delay * SAMPLE_RATE), gain: 0.25 * normal(random) * Math.exp(-delay / 0.04) };
  });
  const out = samples.slice();
  for (const { at, gain } of taps)
    for (let i = at; i < out.length; i++) out[i] = (out[i] as number) + gain * (samples[i - at] as number);
  return out;
}

/** Limits the band to 300–3400 Hz by second-order Butterworth filters, applied twice each. */
function telephone(samples: Float32Array): void {
  for (let pass = 0; pass < 2; pass++) {
    biquad(samples, 3400, false);
    biquad(samples, 300, true);
  }
}

function biquad(samples: Float32Array, hz: number, high: boolean): void {
  const w = (2 * Math.PI * hz) / SAMPLE_RATE;
  const alpha = Math.sin(w) / Math.SQRT2;
  const cos = Math.cos(w);
  const a0 = 1 + alpha;
  const b1 = (high ? -(1 + cos) : 1 - cos) / a0;
  const b0 = Math.abs(b1) / 2;
  const a1 = (-2 * cos) / a0;
  const a2 = (1 - alpha) / a0;
  let x1 = 0;
  let x2 = 0;
  let y1 = 0;
  let y2 = 0;
  for (let i = 0; i < samples.length; i++) {
    const x = samples[i] as number;
    const y = b0 * x + b1 * x1 + b0 * x2 - a1 * y1 - a2 * y2;
    x2 = x1;
    x1 = x;
    y2 = y1;
    y1 = y;
    samples[i] = y;
  }
}

/** Adds white noise, or noise that falls with frequency as that of rooms and streets does. */
function addNoise(samples: Float32Array, level: number, random: Random): void {
  const colour = random() < 0.5 ? 0 : 0.9;
  const scale = level * Math.sqrt(1 - colour * colour);
  let state = 0;
  for (let i = 0; i < samples.length; i++) {
    state = colour * state + normal(random) * scale;
    samples[i] = (samples[i] as number) + state;
  }
}

/** Returns instrumental music: chords of decaying tones over a bass, with drums on some beats. */
export function music(seconds: number, random: Random): Float32Array {
  const out = new Float32Array(Math.round(seconds * SAMPLE_RATE));
  const beat = 0.25 + 0.4 * random();
  const root = 55 * 2 ** random();
  const bright = 2 + Math.floor(7 * random());
  const drums = random() < 0.6;
  const attack = random() < 0.5 ? 0.005 : 0.12;
  for (let start = 0; start < seconds; start += beat) {
    const base = root * 2 ** (pick(random, [0, 2, 4, 5, 7, 9, 12]) / 12);
    for (const interval of [0, 12, pick(random, [15, 16]), 19, pick(random, [22, 24, 28])]) {
      const hz = base * 2 ** (interval / 12);
      const decay = 0.2 + random();
      const gain = 0.08 * (0.5 + random());
      for (let h = 1; h <= bright && h * hz < 7500; h++) {
        tone(out, start, beat * 1.5, { hz: h * hz, gain: gain / h, decay, attack });
      }
    }
    if (drums && random() < 0.7) drum(out, start, random);
  }
  return out;
}

function tone(
  out: Float32Array,
  start: number,
  seconds: number,
  { hz, gain, decay, attack }: { hz: number; gain: number; decay: number; attack: number },
): void {
  const first = Math.round(start * SAMPLE_RATE);
  const count = Math.min(out.length - first, Math.round(seconds * SAMPLE_RATE));
  for (let i = 0; i < count; i++) {
    const t = i / SAMPLE_RATE;
    const envelope = Math.min(1, t / attack) * Math.exp(-t / decay) * Math.min(1, (count - i) / 400);
    out[first + i] = (out[first + i] as number) + gain * envelope * Math.sin(2 * Math.PI * hz * t);
  }
}

function drum(out: Float32Array, start: number, random: Random): void {
  const first = Math.round(start * SAMPLE_RATE);
  const decay = 0.02 + 0.08 * random();
  const count = Math.min(out.length - first, SAMPLE_RATE >> 2);
  for (let i = 0; i < count; i++)
    out[first + i] = (out[first + i] as number) + 0.2 * normal(random) * Math.exp(-i / SAMPLE_RATE / decay);
}
