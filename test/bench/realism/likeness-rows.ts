import { figure, type Row } from '../lib/section.ts';
import type { Case } from './case.ts';

/** Greatest mean distance of a swapped portrait to its source. */
const GOAL = 0.55;

const WEARERS: readonly (readonly [
  name: string,
  whose: (glasses: NonNullable<Case['glasses']>) => boolean,
])[] = [
  ['neither wears glasses', ({ source, target }) => !source && !target],
  // Glasses of a source are left out, and what is behind them is less sure.
  ['the source alone wears glasses', ({ source, target }) => source && !target],
  // A target keeps its glasses, with brows and lids.
  ['the target wears glasses', ({ target }) => target],
];

/** Returns the mean distance of the 128-d recogniser between swapped portraits and their sources: of all, and by who
 * wears glasses. */
export function likenessRows(cases: readonly Case[]): Row[] {
  const portraits = cases.filter(({ kind, likeness }) => kind === 'portraits' && likeness !== undefined);
  const mean = (some: readonly Case[]): number =>
    some.reduce((sum, { likeness = 0 }) => sum + likeness, 0) / some.length;
  const row = { peer: '', ratio: '', goal: '', met: '' as const };
  const byWearer = WEARERS.flatMap(([name, whose]) => {
    const some = portraits.filter(({ glasses }) => glasses && whose(glasses));
    const ours = `${figure(mean(some))} (${some.length})`;
    return some.length > 0 ? [{ ...row, name: `portraits, ${name}: 128-d distance`, ours }] : [];
  });
  const all = mean(portraits);
  return [
    {
      ...row,
      name: 'portraits: 128-d distance to the source',
      ours: figure(all),
      goal: `≤ ${GOAL}`,
      met: all <= GOAL ? 'met' : 'not met',
    },
    ...byWearer,
  ];
}
