import { readFileSync } from 'node:fs';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { heifFault } from './heif-header.ts';
import { isAnimated } from './sniff.ts';

const portrait = () => readFileSync('media/phone/portrait.heic');
const replaced = (from: string, to: string) =>
  Buffer.from(portrait().toString('latin1').replaceAll(from, to), 'latin1');

describe('the header of a HEIF file', () => {
  it.each(['portrait', 'deep', 'cut-out'])('of a picture that agents decode has no fault: %s', (name) => {
    expect(heifFault(readFileSync(`media/phone/${name}.heic`).subarray(0, 65_536))).toBeUndefined();
  });

  it('of AVIF neither', async () => {
    const create = { width: 9, height: 9, channels: 3, background: 'red' } as const;
    expect(heifFault(await sharp({ create }).avif().toBuffer())).toBeUndefined();
  });

  it.each([
    ['another codec', replaced('hvc1', 'vvc1'), 'coded in a way (vvc1)'],
    ['no codec at all', replaced('hvc1', 'xxxx'), 'that is not accepted'],
  ])('with %s is refused', (_what, file, text) => {
    expect(heifFault(file)).toContain(text);
  });

  it.each([16, 18])('with transfer %i is refused as of high dynamic range', (transfer) => {
    const file = portrait();
    file.writeUInt16BE(transfer, file.indexOf('nclx') + 6);
    expect(heifFault(file)).toContain('high dynamic range');
  });

  it('cut off anywhere, or with any byte changed, is no error', () => {
    const file = portrait().subarray(0, 4_096);
    for (let length = 0; length < file.length; length++) heifFault(file.subarray(0, length));
    for (let at = 0; at < file.length; at++) {
      const changed = Buffer.from(file);
      changed[at] = (changed[at] as number) ^ 0xff;
      heifFault(changed);
    }
  });
});

describe('a picture that moves', () => {
  const still9 = (background: string) => sharp({ create: { width: 9, height: 9, channels: 3, background } });
  const animation = async () =>
    sharp(await Promise.all(['red', 'blue'].map((colour) => still9(colour).png().toBuffer())), {
      join: { animated: true },
    });
  const still = () => still9('red');

  it('is told from a still one by its first bytes', async () => {
    expect(isAnimated(await (await animation()).webp().toBuffer(), 'image/webp')).toBe(true);
    expect(isAnimated(await still().webp().toBuffer(), 'image/webp')).toBe(false);
    expect(isAnimated(await still().withIccProfile('p3').webp().toBuffer(), 'image/webp')).toBe(false);
    expect(isAnimated(await (await animation()).gif().toBuffer(), 'image/gif')).toBe(true);
    expect(isAnimated(await still().png().toBuffer(), 'image/png')).toBe(false);
  });

  it('as PNG has its mark before the pixels, also after a profile', async () => {
    const png = await still().withIccProfile('p3').png().toBuffer();
    const at = png.indexOf('IDAT') - 4;
    const mark = Buffer.concat([Buffer.from([0, 0, 0, 8]), Buffer.from('acTL'), Buffer.alloc(12)]);
    expect(isAnimated(Buffer.concat([png.subarray(0, at), mark, png.subarray(at)]), 'image/png')).toBe(true);
    expect(isAnimated(png.subarray(0, 40), 'image/png')).toBe(false);
  });
});
