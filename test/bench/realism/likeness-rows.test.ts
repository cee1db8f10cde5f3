import { expect, it } from 'vitest';
import type { Case } from './case.ts';
import { likenessRows } from './likeness-rows.ts';

function portrait(likeness: number | undefined, source: boolean, target: boolean): Case {
  const glasses = { source, target };
  return {
    kind: 'portraits',
    label: '',
    measures: undefined,
    likeness,
    glasses,
    worst: 0,
    faults: [],
    cells: [],
  };
}

it('tells the distance of all, and apart where nobody, the source alone and the target wear glasses', () => {
  const rows = likenessRows([
    portrait(0.4, false, false),
    portrait(0.5, false, false),
    portrait(0.6, true, false),
    portrait(0.7, false, true),
    portrait(0.9, true, true),
    portrait(undefined, false, false),
    { ...portrait(3, false, false), kind: 'mug' },
  ]);
  expect(rows.map(({ name, ours, met }) => [name, ours, met])).toEqual([
    ['portraits: 128-d distance to the source', '0.62', 'not met'],
    ['portraits, neither wears glasses: 128-d distance', '0.45 (2)', ''],
    ['portraits, the source alone wears glasses: 128-d distance', '0.6 (1)', ''],
    ['portraits, the target wears glasses: 128-d distance', '0.8 (2)', ''],
  ]);
});
