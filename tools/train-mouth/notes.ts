import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { normal, type Random } from '@semblance/testkit/sound/random';

/** One note. `shape` returns the sample for a phase in turns and a time since the start in seconds. */
interface Note {
  readonly start: number;
  readonly seconds: number;
  readonly gain: number;
  readonly hz: (t: number) => number;
  readonly shape: (phase: number, t: number) => number;
  readonly attack: number;
  readonly decay: number;
}

/** Adds a note to a sound. */
export function play(out: Float32Array, { start, seconds, gain, hz, shape, attack, decay }: Note): void {
  const first = Math.round(start * SAMPLE_RATE);
  const count = Math.min(out.length - first, Math.round(seconds * SAMPLE_RATE));
  let phase = 0;
  for (let i = 0; i < count; i++) {
    const t = i / SAMPLE_RATE;
    phase += hz(t) / SAMPLE_RATE;
    const envelope = Math.min(1, t / attack) * Math.exp(-t / decay) * Math.min(1, (count - i) / 500);
    out[first + i] = (out[first + i] as number) + gain * envelope * shape(phase, t);
  }
}

export const sine = (phase: number): number => Math.sin(2 * Math.PI * phase);

/**
 * Returns one period of a tone as a function of the phase in turns. Harmonics up to 7.5 kHz have amplitudes
 * h^-exponent; `odd` keeps only the odd ones, as in a square wave.
 */
export function harmonics(hz: number, exponent: number, odd: boolean): (phase: number) => number {
  const count = Math.max(1, Math.min(24, Math.floor(7500 / hz)));
  const table = Float32Array.from({ length: 1024 }, (_, i) => {
    let sum = 0;
    for (let h = 1; h <= count; h += odd ? 2 : 1)
      sum += Math.sin((2 * Math.PI * h * i) / 1024) / h ** exponent;
    return sum;
  });
  return (phase) => table[Math.floor((phase - Math.floor(phase)) * 1024)] as number;
}

/** Adds a burst of noise; `tilt` removes its low frequencies. */
export function strike(
  out: Float32Array,
  {
    start,
    gain,
    decay,
    tilt,
    random,
  }: { start: number; gain: number; decay: number; tilt: number; random: Random },
): void {
  const first = Math.round(start * SAMPLE_RATE);
  const count = Math.min(out.length - first, Math.round(6 * decay * SAMPLE_RATE));
  let before = 0;
  for (let i = 0; i < count; i++) {
    const x = normal(random);
    out[first + i] =
      (out[first + i] as number) + gain * (x - tilt * before) * Math.exp(-i / SAMPLE_RATE / decay);
    before = x;
  }
}
