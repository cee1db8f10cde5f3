import type { Stack } from '@semblance/testkit/stack/stack';

/** Whether a goal was reached; '' for a row without a goal, which only explains where time goes. */
export type Verdict = 'met' | 'not met' | 'not measured' | '';

/** One line of the report. Every figure is text with its unit, as people read it. */
export interface Row {
  readonly name: string;
  readonly ours: string;
  /** Figure that ours is compared with in the same run, or the limit for ours. */
  readonly peer: string;
  readonly ratio: string;
  readonly goal: string;
  readonly met: Verdict;
}

export interface Section {
  readonly title: string;
  readonly rows: readonly Row[];
  /** Notes that a reader needs to judge the figures: load, sizes, repetitions, and what is compared. */
  readonly notes?: readonly string[];
}

export interface BenchContext {
  /** Stack that only this run uses. */
  readonly stack: Stack;
  /** Folder for pictures and the like. */
  readonly outDir: string;
  /** Reports progress. */
  readonly say: (line: string) => void;
}

/** Returns a row that compares two rates (more is better); its goal is a minimum ratio. */
export function ratioRow(options: {
  name: string;
  /** Rate of ours, in `unit`; `peer` is that of the peer. */
  ours: number;
  peer: number;
  unit: string;
  peerName: string;
  atLeast: number;
}): Row {
  const { name, ours, peer, unit, peerName, atLeast } = options;
  const ratio = ours / peer;
  return {
    name,
    ours: `${figure(ours)} ${unit}`,
    peer: `${figure(peer)} ${unit} (${peerName})`,
    ratio: ratio.toFixed(2),
    goal: `≥ ${atLeast}`,
    met: ratio >= atLeast ? 'met' : 'not met',
  };
}

/** Returns a row with a figure that must not exceed a limit. */
export function limitRow(options: { name: string; ours: number; limit: number; unit: string }): Row {
  const { name, ours, limit, unit } = options;
  return {
    name,
    ours: `${figure(ours)} ${unit}`,
    peer: '',
    ratio: '',
    goal: `≤ ${limit} ${unit}`,
    met: ours <= limit ? 'met' : 'not met',
  };
}

/** Returns a row that says what could not be measured and why. */
export function unmeasuredRow(name: string, goal: string, why: string): Row {
  return { name, ours: why, peer: '', ratio: '', goal, met: 'not measured' };
}

/** Formats a number with about three significant digits, grouped in thousands. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: 0, maximumFractionDigits: digits });
}

/**
 * Returns the value below which a share of the sample lies, by linear interpolation between ranks.
 * @param share in [0, 1], such as 0.99
 */
export function quantile(sample: readonly number[], share: number): number {
  const sorted = [...sample].sort((a, b) => a - b);
  const rank = (sorted.length - 1) * share;
  const low = sorted[Math.floor(rank)];
  const high = sorted[Math.ceil(rank)];
  if (low === undefined || high === undefined) throw new RangeError('a quantile of nothing');
  return low + (high - low) * (rank - Math.floor(rank));
}
