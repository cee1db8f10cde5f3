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

it('tells by how much a look is late, at any time, and whether or not the one before counted', () => {
  const standstill = new Standstill(100);
  expect(standstill.lateMs(5_000)).toBe(0);
  standstill.begin(0);
  expect([100, 200, 201, 900].map((now) => standstill.lateMs(now))).toEqual([0, 0, 101, 800]);
  expect(standstill.was(900)).toBe(true);
  expect([900, 1_000, 1_700].map((now) => standstill.lateMs(now))).toEqual([0, 0, 700]);
  standstill.was(1_700);
  expect(standstill.lateMs(1_800)).toBe(0);
});
