import type { Voice } from '@semblance/common/voices/voice';
import { NOISE_WIDTH } from '@semblance/engine-onnx/contracts/rvc';
import type { FloatTensor } from '@semblance/engine-onnx/sessions/protocol';
import { FULL_SCALE, Limiter, toSample } from '../limiter.ts';
import { FrameNoise } from './frame-noise.ts';
import { MEL_HOP } from './log-mel.ts';
import { pitchClass } from './pitch-classes.ts';
import { Resampler } from './resampler.ts';
import { Retrieval } from './retrieval.ts';
import { assertLength, type RunModel, type RvcModels, type VoiceModel } from './rvc-models.ts';
import { SOURCE_RATE, type SourcePitch, sourcePitch } from './source-pitch.ts';
import { Splicer } from './splice.ts';
import { interpolated, TargetPitch } from './target-pitch.ts';

/** Length that each run adds to the stream, length of its fade-in, and largest shift, in ms. */
export const BLOCK_MS = 100;
const FADE_MS = 30;
const SEARCH_MS = 10;
const FRAMES_A_SECOND = SOURCE_RATE / MEL_HOP;
/** Samples that the content encoder's last frame reads beyond the window; it reads 400 every 320. */
const BEYOND = 80;
const BLOCK = (BLOCK_MS * SOURCE_RATE) / 1_000;
const NEW_FRAMES = BLOCK / MEL_HOP;
/** Shares of the index that RVC's page offers first, and its `protect` from which nothing is protected. */
const INDEX_RATE = 0.75;
const PROTECT = 0.33;
const UNPROTECTED = 0.5;

/** Length of a window, in ms: the default, the longest, and the step between two. RMVPE takes 32 frames at a time. */
export const CONTEXT_MS = 640;
export const LONGEST_CONTEXT_MS = 2_560;
export const CONTEXT_STEP_MS = 320;

export interface RvcConverterOptions {
  readonly sampleRate: number;
  readonly voice: Pick<Voice, 'pitchHz' | 'transpose' | 'indexRate' | 'protect'>;
  readonly models: RvcModels;
  readonly run: RunModel;
  /** Length of the window that the models process, in ms: a multiple of {@link CONTEXT_STEP_MS}. */
  readonly contextMs?: number;
}

/**
 * Converts a stream with an RVC voice. Every 0.1 s the models process the last 0.64 s or more, and the end of their result
 * is joined to the output. Memory is fixed for any length. Like VoiceConverter, but allows only one call at a time.
 */
export class RvcConverter {
  /** Largest delay of the output, in samples; a shifted piece is up to {@link SEARCH_MS} earlier. */
  readonly latencySamples: number;
  readonly #options: RvcConverterOptions;
  #stream: RvcStream;

  constructor(options: RvcConverterOptions) {
    this.#options = options;
    this.#stream = new RvcStream(options);
    this.latencySamples = this.#stream.latency;
  }

  push(chunk: Int16Array): Promise<Int16Array> {
    return this.#stream.push(chunk);
  }

  async flush(): Promise<Int16Array> {
    const rest = await this.#stream.push(new Int16Array(this.latencySamples));
    this.#stream = new RvcStream(this.#options);
    return rest;
  }
}

class RvcStream {
  readonly latency: number;
  readonly #models: RvcModels;
  readonly #run: RunModel;
  readonly #rate: number;
  readonly #inward: Resampler;
  readonly #outward: Resampler;
  readonly #limiter: Limiter;
  readonly #splicer: Splicer;
  readonly #pitch: SourcePitch | undefined;
  readonly #target: TargetPitch;
  readonly #noise: FrameNoise | undefined;
  readonly #retrieval: Retrieval | undefined;
  /** Share of what is retrieved in frames without a voice. */
  readonly #unvoicedShare: number;
  /** Frames of a window, each a hundredth of a second. */
  readonly #frames: number;
  /** Samples at SOURCE_RATE that do not make a block yet, and the latest samples that did. */
  #pending = new Float64Array(0);
  readonly #window: Float64Array;
  /** Output samples that are not sent yet. */
  #ready: Float64Array;
  /** Output samples that still precede the stream's first. */
  #early: number;

  constructor({ sampleRate, voice, models, run, contextMs = CONTEXT_MS }: RvcConverterOptions) {
    this.#models = models;
    this.#run = run;
    this.#frames = (contextMs * FRAMES_A_SECOND) / 1_000;
    this.#window = new Float64Array(this.#frames * MEL_HOP + BEYOND);
    const { inputs, options } = models.voice;
    this.#rate = options.sample_rate ?? 0;
    if (inputs.some(({ role }) => role === 'rnd'))
      this.#noise = new FrameNoise(NOISE_WIDTH, this.#frames, options.noise ?? 0);
    this.#limiter = new Limiter(sampleRate);
    this.#inward = new Resampler(sampleRate, SOURCE_RATE);
    this.#outward = new Resampler(this.#rate, sampleRate);
    const [block, fade, search] = [BLOCK_MS, FADE_MS, SEARCH_MS].map((ms) => (ms * this.#rate) / 1_000) as [
      number,
      number,
      number,
    ];
    this.#splicer = new Splicer(block, fade, search);
    this.#pitch = sourcePitch(models, run);
    const { indexRate = INDEX_RATE, protect = PROTECT } = voice;
    if (models.index && indexRate > 0) this.#retrieval = new Retrieval(models.index, indexRate);
    this.#unvoicedShare = protect < UNPROTECTED ? protect : 1;
    this.#target = new TargetPitch(voice, 1 / FRAMES_A_SECOND);
    // Starts with silence, because a block is sent while the next one arrives.
    this.#ready = new Float64Array(Math.ceil((BLOCK_MS * sampleRate) / 1_000));
    const held = (FADE_MS + SEARCH_MS) / 1_000 + BEYOND / SOURCE_RATE;
    const filters = this.#inward.delay + this.#outward.delay;
    this.latency = this.#ready.length + Math.round((held + filters) * sampleRate) + this.#limiter.delay;
    this.#early = this.latency;
  }

  async push(chunk: Int16Array): Promise<Int16Array> {
    const samples = this.#inward.push(Float64Array.from(chunk, (sample) => sample / FULL_SCALE));
    this.#pending = joined(this.#pending, samples);
    while (this.#pending.length >= BLOCK) {
      const block = this.#pending.slice(0, BLOCK);
      this.#pending = this.#pending.slice(BLOCK);
      const made = this.#outward.push(await this.#convert(block));
      this.#limiter.apply(made);
      this.#ready = joined(this.#ready, made);
    }
    const out = Int16Array.from(this.#ready.subarray(0, chunk.length), toSample);
    this.#ready = this.#ready.slice(chunk.length);
    // The models' result for the silence before the stream is not part of it.
    out.fill(0, 0, Math.min(out.length, this.#early));
    this.#early = Math.max(0, this.#early - out.length);
    return out;
  }

  async #convert(block: Float64Array): Promise<Float64Array> {
    const [window, frames] = [this.#window, this.#frames];
    window.copyWithin(0, BLOCK);
    window.set(block, window.length - BLOCK);
    this.#pitch?.hear(block);
    const { voice, content } = this.#models;
    const [said, heard] = await Promise.all([
      this.#content(content, window),
      this.#pitch?.of(window, frames),
    ]);
    const feats = this.#features(said.data, said.width, heard);
    const hz = heard ? this.#voicePitch(heard) : new Float64Array(frames);
    const { data } = await this.#run(voice.name, {
      feats,
      p_len: { data: Float32Array.of(frames), dims: [1] },
      pitch: { data: Float32Array.from(hz, pitchClass), dims: [1, frames] },
      pitchf: { data: Float32Array.from(hz), dims: [1, frames] },
      sid: { data: Float32Array.of(voice.options.speaker ?? 0), dims: [1] },
      ...(this.#noise && { rnd: { data: this.#noise.next(NEW_FRAMES), dims: [1, NOISE_WIDTH, frames] } }),
    });
    assertLength('audio', data.length, (frames * this.#rate) / FRAMES_A_SECOND);
    const end = ((BLOCK_MS + FADE_MS + SEARCH_MS) * this.#rate) / 1_000;
    return this.#splicer.add(Float64Array.from(data.subarray(data.length - end)));
  }

  async #content({ name, inputs }: VoiceModel, window: Float64Array) {
    const [input] = inputs;
    const dims = [...(input?.dims.slice(0, -1) ?? [1]), window.length];
    const sound = { data: Float32Array.from(window), dims };
    const { data, dims: found } = await this.#run(name, { [input?.role ?? '']: sound });
    const width = found.at(-1) ?? 0;
    assertLength('content', data.length, (this.#frames / 2) * width);
    return { data, width };
  }

  /**
   * Returns the content, each frame twice: the encoder's frames have 20 ms, the voice's 10 ms. Frames without a voice
   * take less from the index, because it has few consonants and much that is sung (RVC's `protect`).
   */
  #features(said: Float32Array, width: number, heard: Float64Array | undefined): FloatTensor {
    const frames = this.#frames;
    const mixed = this.#retrieval?.mixed(said) ?? said;
    const feats = new Float32Array(frames * width);
    for (let frame = 0; frame < frames; frame++) {
      const [from, to] = [(frame >> 1) * width, frame * width];
      const share = heard && (heard[frame] as number) <= 0 ? this.#unvoicedShare : 1;
      for (let i = 0; i < width; i++)
        feats[to + i] = share * (mixed[from + i] as number) + (1 - share) * (said[from + i] as number);
    }
    return { data: feats, dims: [1, frames, width] };
  }

  /** Returns the pitch of each frame in the voice. */
  #voicePitch(heard: Float64Array): Float64Array {
    const hz = this.#target.of(heard, NEW_FRAMES);
    return this.#models.voice.options.interpolate === 0 ? hz : interpolated(hz);
  }
}

function joined(a: Float64Array, b: Float64Array): Float64Array<ArrayBuffer> {
  const both = new Float64Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
