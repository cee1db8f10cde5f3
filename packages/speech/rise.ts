import { type PitchPoint, pitchOf } from './pitch.ts';

/** Pitch at the end of a question above the median of its sentence, in semitones. */
const RISE = 4;
/** Longest time over which a question rises, in seconds. */
const RISE_SEC = 0.45;
/** Largest change of the pitch, as a factor; beyond it the periods would be heard one by one. */
const MOST = 2;
/** Longest time between two moments of one voiced run, in seconds. */
const GAP_SEC = 0.035;
/** Time in which the raised sound goes over into what follows it, in seconds. */
const FADE_SEC = 0.004;
/** Search range of a mark around its expected position, as a share of a period. */
const SEARCH = 0.2;

/**
 * Raises the pitch at the end of a sentence in place, as that of a question that can be answered by yes or no: from
 * what it is to {@link RISE} semitones above the median. Times and unvoiced sounds stay. The method is pitch-synchronous
 * overlap-add (Moulines and Charpentier, Speech Communication 9, 1990).
 */
export function raiseEnd(samples: Int16Array, sampleRate: number): void {
  const points = pitchOf(samples, sampleRate);
  const last = points.at(-1);
  const median = points.map(({ hz }) => hz).sort((a, b) => a - b)[points.length >> 1];
  if (!last || median === undefined) return;
  const from = last.seconds - RISE_SEC;
  const rising = points.filter(({ seconds }) => seconds >= from);
  const start = rising[0]?.hz ?? median;
  const target = median * 2 ** (RISE / 12);
  const ratioAt = (seconds: number, hz: number): number => {
    const share = Math.max(0, Math.min(1, (seconds - from) / RISE_SEC));
    const wanted = Math.min(start, target) * (target / Math.min(start, target)) ** share;
    // It begins without a step.
    const ratio = (wanted / hz) ** Math.min(1, 4 * share);
    return Math.max(1 / MOST, Math.min(MOST, ratio));
  };
  for (const run of runsOf(rising)) raiseRun(samples, sampleRate, run, ratioAt);
}

function runsOf(points: readonly PitchPoint[]): PitchPoint[][] {
  const runs: PitchPoint[][] = [];
  for (const point of points) {
    const run = runs.at(-1);
    const before = run?.at(-1);
    if (run && before && point.seconds - before.seconds < GAP_SEC) run.push(point);
    else runs.push([point]);
  }
  return runs;
}

function raiseRun(
  samples: Int16Array,
  sampleRate: number,
  run: readonly PitchPoint[],
  ratioAt: (seconds: number, hz: number) => number,
): void {
  const hzAt = (at: number): number => {
    const seconds = at / sampleRate;
    const next = run.findIndex((point) => point.seconds >= seconds);
    const [a, b] = [run[Math.max(0, next - 1)], next < 0 ? run.at(-1) : run[next]];
    if (!a || !b || next < 1) return (b ?? a)?.hz ?? 1;
    return a.hz + ((b.hz - a.hz) * (seconds - a.seconds)) / (b.seconds - a.seconds);
  };
  const marks = marksOf(samples, sampleRate, run, hzAt);
  const [first, last] = [marks[0], marks.at(-1)];
  if (first === undefined || last === undefined || marks.length < 3) return;
  const source = samples.slice();
  const sum = new Float32Array(last - first);
  const weight = new Float32Array(last - first);
  let at: number = first;
  let near = 0;
  while (at < last) {
    while (
      near + 1 < marks.length &&
      Math.abs((marks[near + 1] as number) - at) <= Math.abs((marks[near] as number) - at)
    )
      near++;
    const mark = marks[near] as number;
    const hz = hzAt(at);
    const period = sampleRate / hz;
    const reach = Math.round(period);
    for (let i = -reach; i <= reach; i++) {
      const to = Math.round(at) + i - first;
      if (to < 0 || to >= sum.length) continue;
      const share = 0.5 + 0.5 * Math.cos((Math.PI * i) / (reach + 1));
      sum[to] = (sum[to] as number) + share * (source[mark + i] ?? 0);
      weight[to] = (weight[to] as number) + share;
    }
    at += period / ratioAt(at / sampleRate, hz);
  }
  const fade = Math.round(FADE_SEC * sampleRate);
  for (let i = 0; i < sum.length; i++) {
    const share = weight[i] as number;
    const own = source[first + i] as number;
    // Closer grains than before overlap more: the mean keeps the loudness.
    const raised = share > 0.05 ? (sum[i] as number) / share : own;
    const value = own + (raised - own) * Math.min(1, (sum.length - i) / fade);
    samples[first + i] = Math.max(-32_768, Math.min(32_767, Math.round(value)));
  }
}

/** Returns marks in a voiced run, one per period, all at the same phase, as Praat's "To PointProcess (cc)" does. */
function marksOf(
  samples: Int16Array,
  sampleRate: number,
  run: readonly PitchPoint[],
  hzAt: (at: number) => number,
): number[] {
  const begin = Math.max(0, Math.round(((run[0]?.seconds ?? 0) - 0.015) * sampleRate));
  const end = Math.min(samples.length, Math.round(((run.at(-1)?.seconds ?? 0) + 0.02) * sampleRate));
  const period = sampleRate / hzAt(begin);
  let at = begin;
  for (let i = begin; i < Math.min(end, begin + period); i++)
    if (Math.abs(samples[i] as number) > Math.abs(samples[at] as number)) at = i;
  const marks = [at];
  for (;;) {
    const length = sampleRate / hzAt(at);
    const half = Math.round(length / 2);
    const spread = Math.round(SEARCH * length);
    const expected = at + Math.round(length);
    if (expected + spread + half >= end) return marks;
    let best = expected;
    let most = Number.NEGATIVE_INFINITY;
    for (let to = expected - spread; to <= expected + spread; to++) {
      let product = 0;
      for (let i = -half; i <= half; i++) product += (samples[at + i] ?? 0) * (samples[to + i] as number);
      if (product > most) {
        most = product;
        best = to;
      }
    }
    at = best;
    marks.push(at);
  }
}
