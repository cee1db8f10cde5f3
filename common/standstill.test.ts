import { expect, it } from 'vitest';
import { Standstill } from './standstill.ts';

it.each<[string, number[], boolean[]]>([
  ['looks in time', [100, 200, 310], [false, false, false]],
  ['one that is late by less than its turn', [190, 380, 580], [false, false, false]],
  ['one that is late', [100, 301, 401, 501], [false, true, false, false]],
  ['all late: every second one counts', [300, 600, 900, 1_200], [true, false, true, false]],
])('%s', (_name, looks, still) => {
  const standstill = new Standstill(100);
  standstill.begin(0);
  expect(looks.map((now) => standstill.was(now))).toEqual(still);
});
