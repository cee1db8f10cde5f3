import { Friction } from './friction.ts';
import { Grains, risen } from './grains.ts';
import { Kernels } from './kernels/kernels.ts';
import { PitchMarks } from './pitch-marks.ts';
import { type PitchFrame, PitchTracker } from './pitch-tracker.ts';
import { GUARD, Ring } from './ring.ts';
import { SpeakerPitch } from './speaker-pitch.ts';

/** Delay of the sound, in seconds. */
const LATENCY_SEC = 0.025;
/** Longest rise of a grain, in seconds. A grain begins, and must be chosen, this long before its mark. */
const RISE_SEC = 0.01;
/** Age of the sound in which a first mark is searched, in seconds. */
const SETTLED_SEC = 0.001;
/** Frequency below which content of the voice is removed, in Hz. */
const RUMBLE_HZ = 20;
/** Value below which the remainder of a filter counts as 0. */
const NOTHING = 1e-9;
/** Length of the kept sound, in seconds: the delay, and the longest period on each side. */
const KEPT_SEC = 0.08;

export interface ShifterOptions {
  readonly sampleRate: number;
  readonly pitchHz: { readonly low: number; readonly high: number };
  readonly formantShift: number;
}

/**
 * Shifts pitch and formants of a voice by pitch-synchronous overlap-add (Moulines and Charpentier,
 * "Pitch-synchronous waveform processing techniques for text-to-speech synthesis using diphones", Speech
 * Communication 9, 1990), streaming. Grains are read at another speed to move the formants (Lent, "An efficient
 * method for pitch shifting digitally sampled sounds", Computer Music Journal 13, 1989). Unvoiced sound, and
 * friction in voiced sounds, pass directly with the same delay.
 *
 * A grain is chosen when it begins: the period of which it is made, and its distance from the grain before.
 */
export class Shifter {
  readonly latency: number;
  /** Samples between two steps of the pitch tracker. */
  readonly hop: number;
  /** Factor on the voice, which the caller sets to keep the loudness. */
  gain = 1;

  readonly #sampleRate: number;
  readonly #formants: number;
  readonly #sound: Ring;
  readonly #voice: Ring;
  readonly #tracker: PitchTracker;
  readonly #friction: Friction;
  readonly #marks: PitchMarks;
  readonly #grains: Grains;
  readonly #speaker: SpeakerPitch;
  readonly #longestRise: number;
  readonly #settled: number;
  #now = 0;
  /** Time of the next step of the tracker. */
  #frameAt: number;
  /** Time of the next choice of a grain, and position of its mark; Infinity without a voice. */
  #decideAt = Number.POSITIVE_INFINITY;
  #nextGrain = 0;
  /** Start and length of the newest grain's fall. */
  #fallAt = 0;
  #fall = 1;
  #voiced = false;
  readonly #made: Float64Array;
  readonly #delayedVoice: Float32Array;
  readonly #rumblePace: number;
  #rumble = 0;
  /** Transition of the direct sound from one share to another. */
  #through = { from: 1, to: 1, at: 0, length: 1 };

  constructor({ sampleRate, pitchHz, formantShift }: ShifterOptions) {
    this.#sampleRate = sampleRate;
    this.#formants = formantShift;
    this.latency = Math.round(LATENCY_SEC * sampleRate);
    this.#longestRise = RISE_SEC * sampleRate;
    this.#settled = Math.ceil(SETTLED_SEC * sampleRate);
    const kept = Math.ceil(KEPT_SEC * sampleRate) + GUARD;
    const kernels = new Kernels();
    this.#sound = new Ring(kept, (samples) => new Float32Array(samples));
    this.#voice = new Ring(kept, (samples) => kernels.floats(samples));
    this.#tracker = new PitchTracker(sampleRate, kernels);
    this.hop = this.#tracker.hop;
    this.#frameAt = this.hop;
    this.#delayedVoice = new Float32Array(this.hop);
    this.#made = kernels.doubles(this.hop);
    this.#rumblePace = 1 - Math.exp((-2 * Math.PI * RUMBLE_HZ) / sampleRate);
    this.#friction = new Friction(kernels, this.#sound, this.#voice, sampleRate, this.hop);
    this.#marks = new PitchMarks(this.#sound, sampleRate);
    this.#grains = new Grains(kernels, this.#voice, formantShift);
    this.#speaker = new SpeakerPitch(pitchHz, this.hop / sampleRate);
  }

  /** Most samples per call of {@link step}. */
  get room(): number {
    return Math.min(this.#frameAt, this.#decideAt) - this.#now;
  }

  /** Whether the pitch tracker stepped in the last {@link step}. */
  get stepped(): boolean {
    return this.#now + this.hop === this.#frameAt;
  }

  /** Whether the last {@link step} made a voice. */
  get voiced(): boolean {
    return this.#voiced;
  }

  /**
   * Takes samples and makes as many, delayed by `latency` samples.
   * @param input at most {@link room} samples
   * @param out its first `count` samples are overwritten
   * @param plain receives the same sound, unchanged
   */
  step(input: Float32Array, count: number, out: Float64Array, plain: Float32Array): void {
    this.#voiced = this.#decideAt !== Number.POSITIVE_INFINITY;
    const first = this.#now;
    this.#sound.write(first, input, count);
    this.#tracker.push(input, count);
    this.#sound.read(first - this.latency, plain, count);
    const [from, to] = [this.#throughAt(first), this.#throughAt(first + count - 1)];
    if (from === 1 && to === 1) for (let i = 0; i < count; i++) out[i] = plain[i] as number;
    else this.#leaveOutVoice(out, plain, count, from === to);
    if (this.#grains.isSounding || this.#rumble !== 0) this.#addVoice(out, count);
    this.#now += count;
    if (this.#now === this.#frameAt) this.#hear();
    if (this.#now >= this.#decideAt) this.#decide();
  }

  /** Keeps the unvoiced part of the direct sound, and the passing share of the voice. */
  #leaveOutVoice(out: Float64Array, plain: Float32Array, count: number, steady: boolean): void {
    const first = this.#now;
    const voice = this.#delayedVoice;
    this.#voice.read(first - this.latency, voice, count);
    let share = 1 - this.#throughAt(first);
    for (let i = 0; i < count; i++) {
      if (!steady) share = 1 - this.#throughAt(first + i);
      out[i] = (plain[i] as number) - share * (voice[i] as number);
    }
  }

  /** Adds the grains without their content below speech. Periods cut from low tones have such content. */
  #addVoice(out: Float64Array, count: number): void {
    const [grains, pace] = [this.#made, this.#rumblePace];
    for (let i = 0; i < count; i++) grains[i] = 0;
    this.#grains.render(grains, this.#now, count);
    let rumble = this.#rumble;
    for (let i = 0; i < count; i++) {
      const value = grains[i] as number;
      rumble += pace * (value - rumble);
      out[i] = (out[i] as number) + value - rumble;
    }
    this.#rumble = rumble;
  }

  /** Returns the share of the direct sound in the output, 0 in a voice, 1 without. */
  #throughAt(n: number): number {
    const { from, to, at, length } = this.#through;
    return from + (to - from) * risen((n - at) / length);
  }

  #hear(): void {
    this.#frameAt += this.hop;
    this.#friction.part(this.#now);
    if (Math.abs(this.#rumble) < NOTHING) this.#rumble = 0;
    const { frame } = this.#tracker;
    if (frame.hz === 0) return;
    this.#speaker.hear(frame.hz);
    if (this.#decideAt === Number.POSITIVE_INFINITY) this.#begin(frame);
  }

  /** Begins a voice. The first grain is exactly where its period was. */
  #begin(frame: PitchFrame): void {
    const period = this.#sampleRate / frame.hz;
    const rise = this.#rise(period);
    const earliest = this.#now + Math.ceil(rise) - this.latency;
    const latest = Math.min(earliest + Math.ceil(period), this.#now - this.#settled);
    const mark = this.#marks.begin(earliest, latest);
    this.#fadeThrough(0, mark + this.latency - rise, rise);
    this.#add(mark + this.latency, mark, period, frame.hz);
  }

  #decide(): void {
    const { frame } = this.#tracker;
    if (frame.hz === 0) {
      this.#decideAt = Number.POSITIVE_INFINITY;
      this.#fadeThrough(1, Math.max(this.#now, this.#fallAt), this.#fall);
      return;
    }
    const period = this.#sampleRate / frame.hz;
    const place = this.#nextGrain - this.latency;
    this.#marks.extend(this.#now, period);
    let mark = this.#marks.nearest(place);
    if (Math.abs(mark - place) > 1.5 * period) {
      // The marks stopped early, such as at a leap of the pitch.
      const from = Math.round(place - period / 2);
      mark = this.#marks.begin(from, Math.min(Math.round(place + period / 2), this.#now - this.#settled));
    }
    this.#add(this.#nextGrain, mark, period, frame.hz);
  }

  #add(at: number, mark: number, period: number, hz: number): void {
    const rise = Math.min(this.#rise(period), at - this.#now);
    const end = period / this.#formants;
    const fall = Math.min(end, this.#longestRise);
    const distance = period / this.#speaker.ratio(hz);
    // This keeps the power, which grows with the number of pulses and falls with their length.
    const gain = this.gain * Math.sqrt((this.#formants * distance) / period);
    this.#grains.add({ at, mark, rise, end, fall, gain });
    this.#fallAt = at + end - fall;
    this.#fall = fall;
    this.#nextGrain = at + distance;
    this.#decideAt = Math.max(this.#now + 1, Math.ceil(this.#nextGrain - this.#rise(period)));
  }

  #rise(period: number): number {
    return Math.min(period / this.#formants, this.#longestRise);
  }

  #fadeThrough(to: number, at: number, length: number): void {
    this.#through = { from: this.#throughAt(this.#now), to, at: Math.max(at, this.#now), length };
  }
}
