import { seeded } from '@semblance/testkit/sound/random';
import type { Traits } from './portrait.ts';

export interface Pair<T> {
  readonly source: T;
  readonly target: T;
}

/** Classes of a portrait along each trait; a pair is the step from the source's to the target's. */
function classesOf(traits: Traits, cuts: { lightness: number[]; width: number[] }): number[] {
  const above = (value: number, limits: readonly number[]): number =>
    limits.filter((limit) => value > limit).length;
  return [
    above(traits.lightness, cuts.lightness),
    above(traits.width, cuts.width),
    traits.teeth > 0.25 ? 2 : traits.opening > 0.06 ? 1 : 0,
    Number(traits.glasses),
    above(traits.yaw, [-0.2, 0.2]),
  ];
}

/** Exchanges that are tried for each portrait of a round. */
const EXCHANGES = 60;
const ATTEMPTS = 200;

/**
 * Pairs portraits by a seed. In each round over all portraits, each is once the source and once the target, never of
 * itself, and no pair comes twice. Two sources exchange their targets when that brings the combinations of
 * complexion, size, smile, glasses and turn nearer to their expected numbers, so that no combination is missing by
 * chance.
 * @param count number of pairs; above the number of portraits a further round begins
 * @throws RangeError when `count` is more than half of all possible pairs
 */
export function choosePairs<T extends { readonly traits: Traits }>(
  portraits: readonly T[],
  count: number,
  seed: number,
): Pair<T>[] {
  const n = portraits.length;
  if (count > (n * (n - 1)) / 2 && count > Math.min(n, n * (n - 1))) {
    throw new RangeError(`cannot choose ${count} pairs of ${n} portraits`);
  }
  const random = seeded(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const kinds = kindsOf(portraits.map(({ traits }) => traits));
  const tally = new Map<string, number>();
  const taken = new Set<number>();
  const pairs: Pair<T>[] = [];
  while (pairs.length < count) {
    const targets = roundOf(n, taken, below);
    spread(targets, { taken, kinds, tally, below, round: Math.floor(pairs.length / n) + 1 });
    for (const source of shuffled(n, below).slice(0, count - pairs.length)) {
      const target = targets[source] as number;
      taken.add(source * n + target);
      for (const { name } of kinds(source, target)) tally.set(name, (tally.get(name) ?? 0) + 1);
      pairs.push({ source: portraits[source] as T, target: portraits[target] as T });
    }
  }
  return pairs;
}

/** What a pair is along one trait, such as "from light to dark". */
interface Kind {
  readonly name: string;
  /** Number of such pairs in a round of chance. */
  readonly expected: number;
}

type Kinds = (source: number, target: number) => Kind[];

function kindsOf(traits: readonly Traits[]): Kinds {
  const thirds = (values: number[]): number[] => {
    values.sort((a, b) => a - b);
    return [1, 2].map((k) => values[Math.floor((k * values.length) / 3)] as number);
  };
  const cuts = {
    lightness: thirds(traits.map(({ lightness }) => lightness)),
    width: thirds(traits.map(({ width }) => width)),
  };
  const classes = traits.map((one) => classesOf(one, cuts));
  const shareOf = (trait: number, value: number): number =>
    classes.filter((one) => one[trait] === value).length / classes.length;
  const known = new Map<string, Kind>();
  return (source, target) =>
    (classes[source] as number[]).map((from, trait) => {
      const to = classes[target]?.[trait] as number;
      const name = `${trait}: ${from} > ${to}`;
      const kind = known.get(name) ?? {
        name,
        expected: classes.length * shareOf(trait, from) * shareOf(trait, to),
      };
      known.set(name, kind);
      return kind;
    });
}

/** Returns the target of each source of one round, none of itself and no pair that is taken. */
function roundOf(n: number, taken: ReadonlySet<number>, below: (limit: number) => number): number[] {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const targets = shuffled(n, below);
    const wrong = (source: number, target: number): boolean =>
      source === target || taken.has(source * n + target);
    for (let source = 0; source < n; source++) {
      for (let other = 0; other < n && wrong(source, targets[source] as number); other++) {
        const [own, theirs] = [targets[source] as number, targets[other] as number];
        if (wrong(source, theirs) || wrong(other, own)) continue;
        [targets[source], targets[other]] = [theirs, own];
      }
    }
    if (targets.every((target, source) => !wrong(source, target))) return targets;
  }
  throw new RangeError(`found no further round of ${n} portraits`);
}

/** Exchanges targets until each combination of each trait is as frequent as it would be in many random rounds. */
function spread(
  targets: number[],
  known: {
    taken: ReadonlySet<number>;
    kinds: Kinds;
    tally: ReadonlyMap<string, number>;
    /** 1 in the first round. */
    round: number;
    below: (limit: number) => number;
  },
): void {
  const { taken, kinds, below } = known;
  const n = targets.length;
  const counts = new Map(known.tally);
  const put = (source: number, target: number, by: 1 | -1): number => {
    // Pearson's chi-square over the combinations of each trait: it is least where none is missing.
    let change = 0;
    for (const { name, expected } of kinds(source, target)) {
      const before = (counts.get(name) ?? 0) - expected * known.round;
      counts.set(name, (counts.get(name) ?? 0) + by);
      change += ((before + by) ** 2 - before ** 2) / expected;
    }
    return change;
  };
  targets.forEach((target, source) => {
    put(source, target, 1);
  });
  for (let k = 0; k < EXCHANGES * n; k++) {
    const [a, b] = [below(n), below(n)];
    const [ofA, ofB] = [targets[a] as number, targets[b] as number];
    if (a === b || a === ofB || b === ofA || taken.has(a * n + ofB) || taken.has(b * n + ofA)) continue;
    const change = put(a, ofA, -1) + put(b, ofB, -1) + put(a, ofB, 1) + put(b, ofA, 1);
    if (change < 0) [targets[a], targets[b]] = [ofB, ofA];
    else {
      put(a, ofB, -1);
      put(b, ofA, -1);
      put(a, ofA, 1);
      put(b, ofB, 1);
    }
  }
}

function shuffled(n: number, below: (limit: number) => number): number[] {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = below(i + 1);
    [order[i], order[j]] = [order[j] as number, order[i] as number];
  }
  return order;
}
