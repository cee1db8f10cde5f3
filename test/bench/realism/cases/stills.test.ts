import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { beforeAll, describe, expect, it } from 'vitest';
import { areaOf } from '../face-areas.ts';
import type { Portrait, Traits } from './portrait.ts';
import { BEARD, chooseStills } from './stills.ts';

const TRAITS: Traits = { lightness: 60, width: 120, opening: 0.01, teeth: 0, yaw: 0, glasses: false };
let plain: Portrait;

beforeAll(async () => {
  const [portrait] = await openPortraits(ASTRONAUT);
  if (!portrait) throw new Error('no portrait');
  plain = { ...portrait, label: 'p000', traits: TRAITS };
});

const named = (label: string, traits: Partial<Traits> = {}, picture: Picture = plain.picture): Portrait => ({
  ...plain,
  label,
  picture,
  traits: { ...TRAITS, ...traits },
});

function changed(change: (value: number, i: number) => number): Picture {
  return { ...plain.picture, data: plain.picture.data.map((value, k) => change(value, Math.floor(k / 3))) };
}

describe('the stills', () => {
  it('are of all kinds, each portrait once, and the same by the same seed', async () => {
    const { width } = plain.picture;
    const middle = plain.face.points[12] as number;
    const chin = areaOf(plain.picture, plain.face, BEARD);
    const people = [
      named('smile', { teeth: 0.5, opening: 0.1 }),
      named('shut'),
      named('glasses', { glasses: true, opening: 0.1 }),
      named(
        'beard',
        { opening: 0.1 },
        changed((value, i) => (chin.data[i] ? 0.4 * value : value)),
      ),
      named('dark', { lightness: 25, opening: 0.1 }),
      named('light', { lightness: 85, opening: 0.1 }),
      named(
        'wall',
        { opening: 0.1 },
        changed((value, i) => (Math.abs((i % width) - middle) > 0.9 * plain.face.width ? 90 : value)),
      ),
      named(
        'flag',
        { opening: 0.1 },
        changed((value, i) => (i % width < 0.2 * width ? (Math.floor(i / 4) % 2) * 255 : value)),
      ),
      ...['any', 'other'].map((label) => named(label, { opening: 0.1 })),
    ];
    const stills = await chooseStills(people, 10, 1);
    const of = (kind: string) => stills.find((still) => still.kind === kind);
    expect(new Set(stills.map(({ label }) => label)).size).toBe(10);
    expect(of('smiling')?.label).toBe('smile');
    expect(of('closed lips')?.label).toBe('shut');
    expect(of('glasses')?.label).toBe('glasses');
    expect(of('beard')?.label).toBe('beard');
    expect(of('dark skin')?.label).toBe('dark');
    expect(of('light skin')?.label).toBe('light');
    const small = of('small face')?.picture.width as number;
    expect(Math.abs(small - (width * 90) / plain.face.width)).toBeLessThan(3);
    const grey = of('black and white')?.picture.data.slice(0, 3);
    expect(new Set(grey).size).toBe(1);
    for (const { picture } of stills) expect([picture.width % 2, picture.height % 2]).toEqual([0, 0]);
    expect(await chooseStills(people, 10, 1)).toEqual(stills);
  });
});
