import { BANDS, FRAME_RATE, MelStream } from './log-mel.ts';
import { Loudness } from './loudness.ts';
import { LOOK_AHEAD, MouthModel, OUTPUTS } from './mouth-model.ts';
import { SpeechGate } from './speech-gate.ts';

/** State of a mouth at a moment. */
export interface MouthPose {
  /** Distance between the lips' inner edges in the middle, in inter-ocular distances (IOD). */
  readonly openness: number;
  /** How far the corners are pulled apart, and how far the lips are pursed, 0–1. */
  readonly spread: number;
  readonly rounding: number;
  /** The lips touch, as in p, b and m. */
  readonly closed: boolean;
}

/** Frames on each side over which the lips close and open gradually. */
const CLOSE = 5;
/** Probability that a peak must exceed to count as a closure. */
const CLOSURE_PEAK = 0.6;
/** Share of the peak down to which the closure lasts. */
const CLOSURE_SHARE = 0.6;
/** Openness that counts as closed; the model gives it for silence and noise. */
const REST = 0.02;
/** Factor that corrects the network's answers, which tend to the mean when it is uncertain. */
const EXPAND = 1.12;
const HOLD = 20;

/** Returns the level of a whole recording, which {@link mouthPoses} needs before its first frame. */
export async function measureLevel(audio: AsyncIterable<Float32Array>): Promise<number> {
  const stream = new MelStream();
  const loudness = new Loudness();
  for await (const samples of audio) loudness.add(stream.push(samples));
  loudness.add(stream.end());
  return loudness.level;
}

export interface PoseOptions {
  readonly model?: MouthModel;
  /** When false, all sound counts as speech. */
  readonly gated?: boolean;
}

/**
 * Yields mouth poses from sound, one per 10 ms from its start to its end, in step with it. Holds at most two
 * seconds of features.
 * @param level the result of {@link measureLevel} for the same sound
 */
export async function* mouthPoses(
  audio: AsyncIterable<Float32Array>,
  level: number,
  { model = new MouthModel(), gated = true }: PoseOptions = {},
): AsyncGenerator<MouthPose> {
  const stream = new MelStream();
  const speech = new SpeechPoses(level, model);
  if (!gated) {
    for await (const samples of audio) yield* speech.push(stream.push(samples));
    yield* speech.push(stream.end());
    yield* speech.end();
    return;
  }
  const gate = new SpeechGate(level);
  const poses: MouthPose[] = [];
  const shares: number[] = [];
  const ready = function* (): Generator<MouthPose> {
    const count = Math.min(poses.length, shares.length);
    const open = shares.splice(0, count);
    for (const [i, pose] of poses.splice(0, count).entries()) yield restrained(pose, open[i] as number);
  };
  const hear = (frames: Float32Array): void => {
    poses.push(...speech.push(frames));
    shares.push(...gate.push(frames));
  };
  for await (const samples of audio) {
    hear(stream.push(samples));
    yield* ready();
  }
  hear(stream.end());
  poses.push(...speech.end());
  shares.push(...gate.end());
  yield* ready();
}

/** Returns a share of a pose; the rest is a mouth at rest. */
function restrained(pose: MouthPose, share: number): MouthPose {
  return {
    openness: share * pose.openness,
    spread: share * pose.spread,
    rounding: share * pose.rounding,
    closed: pose.closed && share > 0.5,
  };
}

/** Computes poses as if all of the sound were speech. */
class SpeechPoses {
  readonly #level: number;
  readonly #model: MouthModel;
  readonly #shaper = new Shaper();
  readonly #said = new Float32Array(OUTPUTS.length);
  /** Frames that the model may still use; `#next` is the current one. */
  #frames: Float32Array = new Float32Array(0);
  #next = 0;

  constructor(level: number, model: MouthModel) {
    this.#level = level;
    this.#model = model;
  }

  push(frames: Float32Array): Generator<MouthPose> {
    return this.#advance(frames, false);
  }

  *end(): Generator<MouthPose> {
    yield* this.#advance(new Float32Array(0), true);
    yield* this.#shaper.end();
  }

  *#advance(more: Float32Array, ending: boolean): Generator<MouthPose> {
    const all = new Float32Array(this.#frames.length + more.length);
    all.set(this.#frames);
    all.set(more, this.#frames.length);
    const count = all.length / BANDS;
    const until = ending ? count : count - LOOK_AHEAD;
    for (; this.#next < until; this.#next++) {
      this.#model.run(all, this.#next, this.#level, this.#said);
      yield* this.#shaper.push(this.#said);
    }
    const drop = Math.max(0, this.#next - LOOK_AHEAD);
    this.#frames = all.slice(drop * BANDS);
    this.#next -= drop;
  }
}

/**
 * Makes poses from the outputs of the model: closes the lips completely at a detected closure, and smooths without
 * delay.
 */
class Shaper {
  /** Output rows that are still needed: HOLD before the current one and as many after it. */
  readonly #rows: Float32Array[] = [];
  #at = 0;

  *push(said: Float32Array): Generator<MouthPose> {
    this.#rows.push(said.slice());
    if (this.#rows.length - this.#at <= HOLD) return;
    yield this.#pose(this.#at);
    if (this.#at < HOLD) this.#at++;
    else this.#rows.shift();
  }

  *end(): Generator<MouthPose> {
    for (; this.#at < this.#rows.length; this.#at++) yield this.#pose(this.#at);
  }

  #value(row: number, output: number): number {
    const rows = this.#rows;
    return (rows[Math.min(rows.length - 1, Math.max(0, row))] as Float32Array)[output] as number;
  }

  #smooth(row: number, output: number): number {
    return (
      0.25 * this.#value(row - 1, output) +
      0.5 * this.#value(row, output) +
      0.25 * this.#value(row + 1, output)
    );
  }

  /** Returns whether the row lies within a detected closure. */
  #inClosure(row: number): boolean {
    const here = this.#smooth(row, 3);
    if (here < CLOSURE_PEAK * CLOSURE_SHARE) return false;
    let peak = here;
    for (const step of [-1, 1]) {
      for (let at = row + step, low = here; Math.abs(at - row) <= HOLD - CLOSE - 1; at += step) {
        const value = this.#smooth(at, 3);
        low = Math.min(low, value);
        if (low < CLOSURE_PEAK * CLOSURE_SHARE) break;
        peak = Math.max(peak, value);
      }
    }
    return peak >= CLOSURE_PEAK && here >= peak * CLOSURE_SHARE;
  }

  #pose(row: number): MouthPose {
    let distance = CLOSE;
    for (let d = 0; d < CLOSE && distance === CLOSE; d++)
      if (this.#inClosure(row - d) || this.#inClosure(row + d)) distance = d;
    const wanted = Math.max(
      0,
      (this.#smooth(row, 0) - REST) * EXPAND + REST * smooth01(this.#smooth(row, 0) / REST - 1),
    );
    return {
      openness: wanted * smooth01(distance / CLOSE),
      spread: Math.min(1, Math.max(0, this.#smooth(row, 1))),
      rounding: Math.min(1, Math.max(0, this.#smooth(row, 2))),
      closed: distance === 0,
    };
  }
}

function smooth01(x: number): number {
  const t = Math.min(1, Math.max(0, x));
  return t * t * (3 - 2 * t);
}

/** Interpolates poses at given times. Times must not decrease. */
export class PoseReader {
  readonly #poses: AsyncGenerator<MouthPose>;
  #index = -1;
  #before: MouthPose | undefined;
  #after: MouthPose | undefined;
  #ended = false;

  constructor(poses: AsyncGenerator<MouthPose>) {
    this.#poses = poses;
  }

  /** @returns the last pose after the end of the sound; closed lips when there was no sound at all */
  async at(seconds: number): Promise<MouthPose> {
    // The middle of pose i is at (i + 0.5) hops.
    const wanted = seconds * FRAME_RATE - 0.5;
    while (!this.#ended && (this.#index < 0 || this.#index < wanted)) {
      const { value, done } = await this.#poses.next();
      if (done) {
        this.#ended = true;
        this.#before = this.#after;
        break;
      }
      this.#before = this.#after ?? value;
      this.#after = value;
      this.#index++;
    }
    const a = this.#before;
    const b = this.#after;
    if (!a || !b) return { openness: 0, spread: 0, rounding: 0, closed: true };
    const t = Math.min(1, Math.max(0, wanted - (this.#index - 1)));
    const mix = (x: number, y: number): number => x + (y - x) * t;
    return {
      openness: mix(a.openness, b.openness),
      spread: mix(a.spread, b.spread),
      rounding: mix(a.rounding, b.rounding),
      closed: t < 0.5 ? a.closed : b.closed,
    };
  }

  /** Releases the source of the sound. */
  async close(): Promise<void> {
    await this.#poses.return(undefined);
  }
}
