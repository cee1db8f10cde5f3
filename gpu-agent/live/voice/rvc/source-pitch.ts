import type { OpenModel } from '../../../engines/onnx/stages/models.ts';
import { PitchTracker } from '../pitch-tracker.ts';
import { logMel, MEL_BANDS, MEL_HOP } from './log-mel.ts';
import { BINS, pitchOfSalience } from './pitch-classes.ts';

/** Of all that stands before a voice, samples a second. */
export const SOURCE_RATE = 16_000;

/** Follows the pitch of a stream at {@link SOURCE_RATE}. */
export interface SourcePitch {
  /** Takes what is new of the stream. */
  hear(samples: Float64Array): void;
  /**
   * @param window the stream's last samples
   * @param frames of it, {@link MEL_HOP} samples each, from its start
   * @returns Hz, 0 without a voice
   */
  of(window: Float64Array, frames: number, signal: AbortSignal): Promise<Float64Array>;
}

/** By the owner's model. */
export function modelPitch(model: OpenModel): SourcePitch {
  const threshold = model.options.threshold ?? 0;
  return {
    hear() {},
    async of(window, frames, signal) {
      const mel = { data: logMel(window, frames), dims: [1, MEL_BANDS, frames] };
      const input = model.model.inputs[0]?.role ?? '';
      const { data } = await model.run({ [input]: mel }, signal);
      return Float64Array.from({ length: frames }, (_, i) =>
        pitchOfSalience(data.subarray(i * BINS, (i + 1) * BINS), threshold),
      );
    },
  };
}

/** By the tracker of `builtin`. Of the last 30 ms it does not know yet: there the last pitch goes on. */
export function trackedPitch(): SourcePitch {
  const tracker = new PitchTracker(SOURCE_RATE);
  /** Of the frames that began to be heard first to last; the newest is at the end. */
  let heard: number[] = [];
  /** Samples heard, and frames forgotten. */
  let [samplesHeard, forgotten] = [0, 0];
  return {
    hear(samples) {
      for (const sample of samples) if (tracker.push(sample)) heard.push(tracker.frame.hz);
      samplesHeard += samples.length;
    },
    async of(window, frames) {
      const begin = samplesHeard - window.length;
      const at = (frame: number) =>
        Math.round((begin + (frame + 0.5) * MEL_HOP + tracker.lag) / tracker.hop) - 1;
      const pitches = Float64Array.from({ length: frames }, (_, frame) => {
        const place = Math.min(at(frame) - forgotten, heard.length - 1);
        return heard[place] ?? 0;
      });
      const old = Math.min(heard.length, Math.max(0, at(0) - forgotten));
      heard = heard.slice(old);
      forgotten += old;
      return pitches;
    },
  };
}
