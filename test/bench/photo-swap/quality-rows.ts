import type { BenchRow } from './bench-row.ts';

/**
 * Measurements of one swap. Distances are those of the 128-d judge; `gain` and `toSource` are cosines of the 1024-d
 * one.
 */
export interface Pair {
  readonly label: string;
  /**
   * Distance from the source to the target before the swap; the next two are from the source and the target to the
   * result.
   */
  readonly dlibBefore: number;
  readonly dlibAfter: number;
  readonly dlibToTarget: number;
  readonly gain: number;
  readonly toSource: number;
  readonly seam: number;
  /** Number of pixels changed far from the face. */
  readonly outside: number;
  /** In percent of the distance between the eyes. */
  readonly drift: number;
  /** Change of the opening, as a share of the distance between the eyes; `eyes` is the same for the lids. */
  readonly mouth: number;
  readonly eyes: number;
}

/** Pairs that a row is about: near-frontal ones, those of them that the judge tells apart, harder ones, or all. */
type Group = 'frontal' | 'apart' | 'hard' | 'all';

interface Measure {
  readonly name: string;
  readonly of: Group;
  readonly value: (pairs: readonly Pair[]) => number;
  readonly digits: number;
  readonly unit?: string;
  readonly least?: number;
  readonly most?: number;
}

const mean =
  (pick: (pair: Pair) => number) =>
  (pairs: readonly Pair[]): number =>
    pairs.reduce((sum, pair) => sum + pick(pair), 0) / pairs.length;

const count = (pairs: readonly Pair[]): number => pairs.length;
const closer = mean((p) => (p.dlibAfter < p.dlibToTarget ? 100 : 0));
const outside = (pairs: readonly Pair[]): number => pairs.reduce((sum, p) => sum + p.outside, 0);
/** Distance below which the makers of the recogniser take two faces for one person. */
const TOLD_APART = 0.6;

const MEASURES: readonly Measure[] = [
  { name: 'pairs', of: 'frontal', value: count, digits: 0, least: 60 },
  {
    name: 'closer to the source than to the target (128-d)',
    of: 'frontal',
    value: closer,
    digits: 1,
    unit: '%',
  },
  {
    name: `the same, of pairs that the judge tells apart (>= ${TOLD_APART} before)`,
    of: 'apart',
    value: closer,
    digits: 1,
    unit: '%',
  },
  {
    name: 'the same, near-frontal and harder pairs together',
    of: 'all',
    value: closer,
    digits: 1,
    unit: '%',
  },
  { name: '128-d distance to the source before', of: 'frontal', value: mean((p) => p.dlibBefore), digits: 3 },
  {
    name: '128-d distance to the source after',
    of: 'frontal',
    value: mean((p) => p.dlibAfter),
    digits: 3,
    most: 0.55,
  },
  {
    name: '128-d distance to the target after',
    of: 'frontal',
    value: mean((p) => p.dlibToTarget),
    digits: 3,
  },
  { name: 'cosine to the source after (1024-d)', of: 'frontal', value: mean((p) => p.toSource), digits: 3 },
  {
    name: 'cosine gain towards the source (1024-d)',
    of: 'frontal',
    value: mean((p) => p.gain),
    digits: 3,
  },
  {
    name: 'pixels changed far from the face, all pairs',
    of: 'all',
    value: outside,
    digits: 0,
    unit: 'pixels',
    most: 0,
  },
  {
    name: 'seam: gradient added at the edge',
    of: 'frontal',
    value: mean((p) => p.seam),
    digits: 2,
    unit: 'levels/pixel',
    most: 1.5,
  },
  {
    name: 'landmark drift (outline, pose)',
    of: 'frontal',
    value: mean((p) => p.drift),
    digits: 2,
    unit: '% of eye distance',
    most: 4,
  },
  {
    name: 'change of mouth opening',
    of: 'frontal',
    value: mean((p) => p.mouth),
    digits: 3,
    unit: 'of eye distance',
  },
  {
    name: 'change of eye opening',
    of: 'frontal',
    value: mean((p) => p.eyes),
    digits: 3,
    unit: 'of eye distance',
  },
  { name: 'harder pairs', of: 'hard', value: count, digits: 0 },
  { name: 'harder pairs: closer to the source (128-d)', of: 'hard', value: closer, digits: 1, unit: '%' },
  { name: 'harder pairs: cosine gain (1024-d)', of: 'hard', value: mean((p) => p.gain), digits: 3 },
];

/** @param frontal number of near-frontal pairs at the beginning; the goals hold for those */
export function qualityRows(pairs: readonly Pair[], frontal: number): BenchRow[] {
  const graded = pairs.slice(0, frontal);
  const groups: Record<Group, readonly Pair[]> = {
    frontal: graded,
    apart: graded.filter((pair) => pair.dlibBefore >= TOLD_APART),
    hard: pairs.slice(frontal),
    all: pairs,
  };
  return MEASURES.filter(({ of }) => groups[of].length > 0).map((measure) => {
    const { name, of, value, digits, unit = '', least, most } = measure;
    const exact = value(groups[of]);
    const row: BenchRow = {
      name,
      ours: Number(exact.toFixed(digits)),
      unit: value === closer ? `${unit} of ${groups[of].length}` : unit,
    };
    if (least !== undefined) return { ...row, goal: `>= ${least}`, met: exact >= least };
    if (most !== undefined) return { ...row, goal: most === 0 ? '0' : `<= ${most}`, met: exact <= most };
    return row;
  });
}
