import type { Voice } from '@semblance/common/voices/voice';
import { SpeakerPitch } from '../speaker-pitch.ts';

/** Moves a source's pitch to that of a voice: by its `transpose`, otherwise into its range as `builtin` does. */
export class TargetPitch {
  readonly #speaker: SpeakerPitch | undefined;
  readonly #transposed: number;

  /** @param frameSec duration of a frame, in seconds */
  constructor({ pitchHz, transpose }: Pick<Voice, 'pitchHz' | 'transpose'>, frameSec: number) {
    this.#speaker = transpose === undefined ? new SpeakerPitch(pitchHz, frameSec) : undefined;
    this.#transposed = 2 ** ((transpose ?? 0) / 12);
  }

  /**
   * @param hz pitch of each frame of a window, 0 without a voice @param fresh number of frames at its end that the
   * window before did not have
   * @returns Hz of each frame, 0 without a voice
   */
  of(hz: Float64Array, fresh: number): Float64Array {
    const speaker = this.#speaker;
    if (!speaker) return hz.map((each) => each * this.#transposed);
    for (const each of hz.subarray(hz.length - fresh)) if (each > 0) speaker.hear(each);
    return hz.map((each) => (each > 0 ? each * speaker.ratio(each) : 0));
  }
}

/**
 * Fills frames without a voice: on a straight line between those beside them, and level before the first and after
 * the last (RVC's `infer/vc/pipeline.py` since 2026: `numpy.interp`). Without any voice all stay 0.
 */
export function interpolated(hz: Float64Array): Float64Array {
  const out = hz.slice();
  let before = hz.findIndex((each) => each > 0);
  if (before < 0) return out;
  out.fill(hz[before] as number, 0, before);
  for (let i = before + 1; i < hz.length; i++) {
    if ((hz[i] as number) <= 0) continue;
    const [from, to] = [hz[before] as number, hz[i] as number];
    for (let k = before + 1; k < i; k++) out[k] = from + ((to - from) * (k - before)) / (i - before);
    before = i;
  }
  return out.fill(hz[before] as number, before);
}
