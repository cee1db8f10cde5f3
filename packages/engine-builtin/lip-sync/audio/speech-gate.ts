import { readFileSync } from 'node:fs';
import { smoothstep } from '@semblance/vision/plane/plane';
import { GATE_HOP, GATE_INPUTS, GATE_REACH, GateInput } from './gate-input.ts';
import { BANDS } from './log-mel.ts';
import { decodeNetwork, type EncodedNetwork, encodeNetwork, type Network, runNetwork } from './network.ts';

/** Judgements on each side whose maximum counts, so that the mouth opens before the first sound. */
const HOLD = 4;
/**
 * Probability of speech below which the mouth stays closed, and above which it moves freely; doubt counts as
 * speech.
 */
const DOUBT = [0.2, 0.6] as const;

/** The committed file. */
export interface GateWeightsFile {
  readonly format: 'semblance-gate/1';
  readonly hidden: number;
  readonly inputs: number;
  readonly arrays: EncodedNetwork;
  /** The result that a training on few sentences must reproduce. */
  readonly notes: { readonly probe: string };
}

const FILE = new URL('./gate-weights.json', import.meta.url);

export function readGateFile(): GateWeightsFile {
  return JSON.parse(readFileSync(FILE, 'utf8')) as GateWeightsFile;
}

export function encodeGate(network: Network, notes: GateWeightsFile['notes']): GateWeightsFile {
  const arrays = encodeNetwork(network);
  return { format: 'semblance-gate/1', hidden: network.hidden, inputs: GATE_INPUTS, arrays, notes };
}

/** @throws Error for weights made for other features */
function decodeGate({ format, hidden, inputs, arrays }: GateWeightsFile): Network {
  if (format !== 'semblance-gate/1' || inputs !== GATE_INPUTS)
    throw new Error('the weights of the speech gate were made for other features; train them again');
  return decodeNetwork(hidden, arrays);
}

/**
 * Returns for each frame of a sound how far a mouth may move: 1 for speech, 0 for music and noise. Its delay is
 * below one second.
 */
export class SpeechGate {
  readonly #network: Network;
  readonly #level: number;
  readonly #input = new GateInput();
  readonly #row = new Float32Array(GATE_INPUTS);
  readonly #said = new Float32Array(1);
  /** Frames that are still used, and the number of the first of them. */
  #frames: Float32Array = new Float32Array(0);
  #first = 0;
  #count = 0;
  /** Probabilities of speech that are still needed, and the number of the first judgement. */
  readonly #judged: number[] = [];
  #firstJudged = 0;
  #told = 0;

  /** @param level of the whole recording */
  constructor(level: number, network: Network = decodeGate(readGateFile())) {
    this.#level = level;
    this.#network = network;
  }

  /** @returns the shares of the frames that are now final */
  push(frames: Float32Array): number[] {
    const all = new Float32Array(this.#frames.length + frames.length);
    all.set(this.#frames);
    all.set(frames, this.#frames.length);
    this.#frames = all;
    this.#count += frames.length / BANDS;
    return this.#tell(false);
  }

  /** Returns the shares of the remaining frames. */
  end(): number[] {
    return this.#tell(true);
  }

  #tell(ending: boolean): number[] {
    const last = this.#count - 1;
    let next = this.#firstJudged + this.#judged.length;
    for (; next * GATE_HOP + (ending ? 0 : GATE_REACH) <= last; next++) this.#judged.push(this.#judge(next));
    // Two judgements more than HOLD are needed: one for smoothing, one for interpolation.
    const until = ending ? this.#count : Math.max(0, (next - HOLD - 2) * GATE_HOP);
    const out: number[] = [];
    for (; this.#told < until; this.#told++) out.push(this.#share(this.#told));
    this.#forget();
    return out;
  }

  #judge(judgement: number): number {
    this.#input.at(this.#frames, judgement * GATE_HOP - this.#first, this.#level, this.#row);
    runNetwork(this.#network, this.#row, this.#said);
    return 1 / (1 + Math.exp(-(this.#said[0] as number)));
  }

  #share(frame: number): number {
    const at = Math.floor(frame / GATE_HOP);
    const t = (frame - at * GATE_HOP) / GATE_HOP;
    return this.#smooth(at) * (1 - t) + this.#smooth(at + 1) * t;
  }

  #smooth(judgement: number): number {
    return 0.25 * this.#held(judgement - 1) + 0.5 * this.#held(judgement) + 0.25 * this.#held(judgement + 1);
  }

  #held(judgement: number): number {
    let most = 0;
    for (let k = judgement - HOLD; k <= judgement + HOLD; k++)
      most = Math.max(most, this.#judged[k - this.#firstJudged] ?? 0);
    return smoothstep(DOUBT[0], DOUBT[1], most);
  }

  #forget(): void {
    const judged = Math.max(0, Math.floor(this.#told / GATE_HOP) - HOLD - 2 - this.#firstJudged);
    this.#judged.splice(0, judged);
    this.#firstJudged += judged;
    const next = this.#firstJudged + this.#judged.length;
    const frames = Math.max(0, next * GATE_HOP - GATE_REACH - this.#first);
    this.#frames = this.#frames.slice(frames * BANDS);
    this.#first += frames;
  }
}
