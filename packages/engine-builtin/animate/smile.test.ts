import { drawnLips } from '@semblance/testkit/engine-builtin/lips';
import { expect, it } from 'vitest';
import { lipGaps } from './lips.ts';
import { setSmile, smileOf } from './smile.ts';

it('a smile becomes the given one, and the opening stays', () => {
  const rest = drawnLips(1, 0.1);
  for (const wanted of [
    { width: 0.8, lift: smileOf(drawnLips(0.8, 0)).lift },
    { width: 1.2, lift: smileOf(drawnLips(1.2, 0.15)).lift },
  ]) {
    const offsets = new Float32Array(rest.length);
    setSmile(rest, offsets, wanted);
    const moved = rest.map((value, i) => value + (offsets[i] as number));
    expect(smileOf(moved).width).toBeCloseTo(wanted.width, 4);
    expect(smileOf(moved).lift).toBeCloseTo(wanted.lift, 4);
    for (const [k, gap] of lipGaps(moved).entries()) expect(gap).toBeCloseTo(lipGaps(rest)[k] as number, 4);
  }
});
