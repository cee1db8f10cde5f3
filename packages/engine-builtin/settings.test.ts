import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RenderOptions } from '@semblance/engine-api/option';
import { ADMIRAL, PROFESSOR } from '@semblance/testkit/engine-builtin/swap-rig';
import sharp from 'sharp';
import { expect, it, onTestFinished } from 'vitest';
import { createBuiltinEngine } from './index.ts';
import { parseBuiltinSettings } from './settings.ts';

/** Returns the green levels of a Photo Swap of an old face onto a younger one. */
async function swapWith(likeness: string, options: RenderOptions = {}): Promise<Uint8Array> {
  const outputDir = await mkdtemp(join(tmpdir(), 'semblance-likeness-'));
  const engine = createBuiltinEngine({ threads: 1, settings: { likeness } });
  onTestFinished(async () => {
    await engine.close();
    await rm(outputDir, { recursive: true, force: true });
  });
  const { outputPath } = await engine.render({
    capability: 'face-swap-image',
    inputs: { image: ADMIRAL, face: PROFESSOR },
    parameters: {},
    options,
    outputDir,
    signal: AbortSignal.timeout(60_000),
    onProgress: () => undefined,
  });
  return sharp(outputPath).removeAlpha().extractChannel(1).raw().toBuffer();
}

it('more likeness changes more of the skin', async () => {
  const changed = (a: Uint8Array, b: Uint8Array) =>
    a.reduce((sum, level, i) => sum + Math.abs(level - (b[i] as number)), 0);
  const [none, half, full] = [await swapWith('0'), await swapWith('0.5'), await swapWith('1')];
  expect(changed(half, none)).toBeGreaterThan(10_000);
  expect(changed(full, none)).toBeGreaterThan(1.5 * changed(half, none));
});

it('is an option of each render that swaps, whose default is the setting', async () => {
  const engine = createBuiltinEngine({ threads: 1, settings: { likeness: '0.25' } });
  await engine.warmUp(AbortSignal.timeout(60_000));
  const options = Object.fromEntries(
    engine.capabilities.map((one) => [one.capability, one.options?.map((each) => [each.name, each.default])]),
  );
  await engine.close();
  expect(options['face-swap-image']).toEqual([['likeness', '0.25']]);
  expect(options['lip-sync']).toBeUndefined();
  const [asked, set] = [await swapWith('0', { likeness: 1 }), await swapWith('1')];
  expect(Buffer.compare(asked, set)).toBe(0);
  expect(Buffer.compare(asked, await swapWith('0'))).not.toBe(0);
});

it('is from 0 to 1', () => {
  expect(parseBuiltinSettings({ likeness: '0.25' })).toEqual({ likeness: 0.25 });
  expect(() => parseBuiltinSettings({ likeness: '2' })).toThrow(/likeness: must be from 0 to 1/);
  expect(() => createBuiltinEngine({ threads: 1, settings: { likeness: 'much' } })).toThrow(/likeness/);
});
