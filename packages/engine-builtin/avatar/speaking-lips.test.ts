import { drawnLips } from '@semblance/testkit/engine-builtin/lips';
import { expect, it } from 'vitest';
import { smileOf } from '../animate/smile.ts';
import { speakingLips } from './speaking-lips.ts';

const SPEAKING = { open: 0.1, spread: 0, round: 0, tuck: 0, closed: false, rest: 0 };

function spoken(rest: Float32Array, command = SPEAKING) {
  const offsets = speakingLips(rest, command);
  return smileOf(rest.map((value, i) => value + (offsets[i] as number)));
}

it('a smile relaxes by a third to a half while the mouth speaks, and is back at rest', () => {
  const rest = drawnLips(1.08, 0.12);
  const own = smileOf(rest);
  const neutral = smileOf(drawnLips(0.88, 0));
  const { width } = spoken(rest);
  const share = (own.width - width) / (own.width - neutral.width);
  expect(share).toBeGreaterThan(1 / 3);
  expect(share).toBeLessThan(1 / 2);
  expect(spoken(rest).lift).toBeLessThan(own.lift - 0.3 * (own.lift - neutral.lift));
  expect(spoken(rest, { ...SPEAKING, rest: 1 })).toEqual(own);
});

it('lips without a smile keep their width', () => {
  const rest = drawnLips(0.8, 0);
  expect(spoken(rest).width).toBeCloseTo(0.8, 4);
});
