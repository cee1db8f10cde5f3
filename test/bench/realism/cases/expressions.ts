import type { Picture } from '@semblance/engine-api/picture';
import type { Pose } from '@semblance/engine-builtin/internal/animate/portrait';
import { seeded } from '@semblance/testkit/sound/random';
import { animated } from './animated.ts';
import type { Pair } from './pairs.ts';
import type { Portrait } from './portrait.ts';

/** Turn of a head in three-quarter view, in radians. */
const TURN = 0.45;
const EYES_CLOSED: Partial<Pose> = { expression: { eyes: [0, 0] } };

const smiling = ({ traits }: Portrait): boolean => traits.teeth > 0.25;
const closed = ({ traits }: Portrait): boolean => traits.opening < 0.03;
const anybody = (): boolean => true;

interface Expression {
  readonly source: (portrait: Portrait) => boolean;
  readonly target: (portrait: Portrait) => boolean;
  /** Pose in which source or target are drawn; undefined: as they are. */
  readonly sourcePose?: Partial<Pose>;
  readonly targetPose?: Partial<Pose>;
}

const KINDS = {
  'smile on closed lips': { source: smiling, target: closed },
  'closed lips on smile': { source: closed, target: smiling },
  'smile on smile': { source: smiling, target: smiling },
  'target: eyes closed': { source: anybody, target: anybody, targetPose: EYES_CLOSED },
  'source: eyes closed': { source: anybody, target: anybody, sourcePose: EYES_CLOSED },
  'target: turned': { source: anybody, target: anybody, targetPose: { yaw: TURN } },
  'source: turned': { source: anybody, target: anybody, sourcePose: { yaw: -TURN } },
} satisfies Record<string, Expression>;

export type ExpressionName = keyof typeof KINDS;
export const EXPRESSIONS = Object.keys(KINDS) as ExpressionName[];

/** A pair, and its pictures where they are drawn in another pose. */
export interface ExpressionPair extends Pair<Portrait> {
  readonly sourcePicture: Picture;
  readonly targetPicture: Picture;
}

/** Returns pairs of an expression by a seed; no portrait is twice the source or twice the target. */
export async function expressionPairs(
  name: ExpressionName,
  portraits: readonly Portrait[],
  { count, seed }: { readonly count: number; readonly seed: number },
): Promise<ExpressionPair[]> {
  const kind: Expression = KINDS[name];
  const random = seeded(seed);
  const drawn = (fits: (portrait: Portrait) => boolean): Portrait[] =>
    portraits
      .filter(fits)
      .map((portrait) => ({ portrait, at: random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ portrait }) => portrait);
  const targets = drawn(kind.target);
  const pairs: ExpressionPair[] = [];
  for (const source of drawn(kind.source)) {
    const target = targets.find((each) => each !== source);
    if (!target || pairs.length === count) break;
    targets.splice(targets.indexOf(target), 1);
    pairs.push({
      source,
      target,
      sourcePicture: await posed(source, kind.sourcePose),
      targetPicture: await posed(target, kind.targetPose),
    });
  }
  return pairs;
}

async function posed({ picture, face }: Portrait, pose: Partial<Pose> | undefined): Promise<Picture> {
  return pose ? (await animated(picture, face))(pose) : picture;
}
