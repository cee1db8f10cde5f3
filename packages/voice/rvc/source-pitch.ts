import { waveformLength } from '@semblance/engine-onnx/contracts/rvc';
import { Kernels } from '../kernels/kernels.ts';
import { PitchTracker } from '../pitch-tracker.ts';
import { FCPE_MEL, LogMel, MEL_BANDS, MEL_HOP, RMVPE_MEL } from './log-mel.ts';
import { BINS, pitchOfSalience } from './pitch-classes.ts';
import { assertLength, type RunModel, type RvcModels, type VoiceModel } from './rvc-models.ts';

/** Sample rate of all models before a voice, in Hz. */
export const SOURCE_RATE = 16_000;

/** Follows the pitch of a stream at {@link SOURCE_RATE}. */
export interface SourcePitch {
  /** Takes the new part of the stream. */
  hear(samples: Float64Array): void;
  /**
   * @param window the stream's last samples
   * @param frames frames of it, {@link MEL_HOP} samples each, from its start
   * @returns Hz of each frame, 0 without a voice
   */
  of(window: Float64Array, frames: number): Promise<Float64Array>;
}

/** Returns the pitch finder of a stream; undefined when its voice uses no pitch. */
export function sourcePitch({ voice, pitch }: RvcModels, run: RunModel): SourcePitch | undefined {
  if (!voice.inputs.some(({ role }) => role === 'pitchf')) return undefined;
  if (!pitch) return trackedPitch();
  const has = (name: string) => pitch.inputs.some(({ role }) => role === name);
  if (has('waveform')) return waveformPitch(pitch, run);
  return has('threshold') ? fcpePitch(pitch, run) : salientPitch(pitch, run);
}

/**
 * Least strengths of a pitch that RVC asks of a salience, w-okada's voice changer of a `waveform` model, and FCPE's own
 * inference.
 */
const SALIENT = 0.03;
const SURE = 0.3;
const LIKELY = 0.006;

/** Uses a model with spectrogram and decoder in its graph. */
function waveformPitch({ name, inputs, options }: VoiceModel, run: RunModel): SourcePitch {
  const threshold = Float32Array.of(options.threshold ?? SURE);
  const dims = inputs.find(({ role }) => role === 'threshold')?.dims ?? [1];
  return {
    hear() {},
    async of(window, frames) {
      const sound = Float32Array.from(window.subarray(0, waveformLength(frames)));
      const { data } = await run(name, {
        waveform: { data: sound, dims: [1, sound.length] },
        threshold: { data: threshold.slice(), dims },
      });
      assertLength('pitch', data.length, frames);
      return Float64Array.from(data);
    },
  };
}

/** Uses FCPE, whose decoder is in its graph. */
function fcpePitch({ name, inputs, options }: VoiceModel, run: RunModel): SourcePitch {
  const threshold = Float32Array.of(options.threshold ?? LIKELY);
  const scalar = inputs.find(({ role }) => role === 'threshold')?.dims ?? [1];
  const counts = inputs.some(({ role }) => role === 'n_samples');
  const mel = new LogMel(FCPE_MEL);
  let moved = 0;
  return {
    hear(samples) {
      moved += samples.length;
    },
    async of(window, frames) {
      const bands = mel.next(window, frames, moved);
      moved = 0;
      const data = new Float32Array(bands.length);
      for (let i = 0; i < data.length; i++)
        data[i] = bands[(i % MEL_BANDS) * frames + Math.floor(i / MEL_BANDS)] as number;
      const { data: hz } = await run(name, {
        mel: { data, dims: [1, frames, MEL_BANDS] },
        threshold: { data: threshold.slice(), dims: scalar },
        ...(counts ? { n_samples: { data: Float32Array.of(frames), dims: [1] } } : {}),
      });
      assertLength('pitch', hz.length, frames);
      return Float64Array.from(hz);
    },
  };
}

function salientPitch({ name, inputs, options }: VoiceModel, run: RunModel): SourcePitch {
  const threshold = options.threshold ?? SALIENT;
  const mel = new LogMel(RMVPE_MEL);
  /** Samples heard since the last window. */
  let moved = 0;
  return {
    hear(samples) {
      moved += samples.length;
    },
    async of(window, frames) {
      const feed = { data: mel.next(window, frames, moved), dims: [1, MEL_BANDS, frames] };
      moved = 0;
      const { data } = await run(name, { [inputs[0]?.role ?? '']: feed });
      assertLength('salience', data.length, frames * BINS);
      return Float64Array.from({ length: frames }, (_, i) =>
        pitchOfSalience(data.subarray(i * BINS, (i + 1) * BINS), threshold),
      );
    },
  };
}

/** Uses `builtin`'s tracker, which does not know the last 30 ms yet. The last pitch is held there. */
function trackedPitch(): SourcePitch {
  const tracker = new PitchTracker(SOURCE_RATE, new Kernels());
  const chunk = new Float32Array(tracker.hop);
  /** Pitches of the frames, the newest at the end. */
  let heard: number[] = [];
  /** Number of samples heard, and of frames forgotten. */
  let [samplesHeard, forgotten] = [0, 0];
  return {
    hear(samples) {
      for (let at = 0; at < samples.length; ) {
        const next = samples.subarray(at, at + tracker.room);
        chunk.set(next);
        if (tracker.push(chunk, next.length)) heard.push(tracker.frame.hz);
        at += next.length;
      }
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
