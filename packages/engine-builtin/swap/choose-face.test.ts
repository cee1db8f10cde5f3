import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';

const engine = createBuiltinEngine({ threads: 1 });
let dir: string;
let count = 0;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-faces-'));
  await engine.warmUp(AbortSignal.timeout(60_000));
}, 120_000);
afterAll(async () => {
  await engine.close();
  await rm(dir, { recursive: true, force: true });
});

/** Returns the path of a portrait in another light and size. */
async function variant(path: string, width: number, brightness: number): Promise<string> {
  const file = join(dir, `v${count++}.png`);
  await sharp(path).resize(width).modulate({ brightness }).png().toFile(file);
  return file;
}
const faceless = async (): Promise<string> => {
  const file = join(dir, `n${count++}.png`);
  await sharp({ create: { width: 200, height: 200, channels: 3, background: '#678' } })
    .png()
    .toFile(file);
  return file;
};
async function swap(faces: Record<string, string>) {
  const outputDir = await mkdtemp(join(dir, 'out-'));
  return engine.render({
    ...{ capability: 'face-swap-image', inputs: { image: ADMIRAL, ...faces }, parameters: {}, outputDir },
    ...{ signal: AbortSignal.timeout(60_000), onProgress: () => undefined },
  });
}

describe('several pictures of a face', () => {
  it('are judged, and the best of them is the face: the same output as with it alone', async () => {
    const small = await variant(ASTRONAUT, 160, 0.9);
    const { outputPath, findings } = await swap({ face: small, face_2: ASTRONAUT, face_3: small });
    expect(findings?.hints[0]).toEqual({
      code: 'picture_chosen',
      message: 'Of the 3 pictures of face_keys, picture 2 is used: it shows the face best.',
      input: 'face',
    });
    const alone = await swap({ face: ASTRONAUT });
    expect(alone.findings?.hints.some(({ code }) => code === 'picture_chosen')).toBe(false);
    const pixels = (path: string) => sharp(path).raw().toBuffer();
    expect(Buffer.compare(await pixels(outputPath), await pixels(alone.outputPath))).toBe(0);
  });

  it('are refused when one shows another person, or none', async () => {
    const dim = await variant(ASTRONAUT, 400, 0.7);
    await expect(swap({ face: ASTRONAUT, face_2: dim, face_3: ADMIRAL })).rejects.toMatchObject({
      code: 'processing_failed',
      message: 'Picture 3 of face_keys shows another person than the first.',
    });
    await expect(swap({ face: ASTRONAUT, face_2: await faceless() })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: 'No face was found in picture 2 of face_keys.',
    });
  });

  it('are inspected as they are rendered', async () => {
    const small = await variant(ASTRONAUT, 200, 1);
    const inputs = { image: ADMIRAL, face: small, face_2: ASTRONAUT };
    const given = {
      capability: 'face-swap-image' as const,
      parameters: {},
      signal: AbortSignal.timeout(60_000),
    };
    const findings = await engine.inspect?.({ ...given, inputs });
    expect(findings?.hints[0]?.code).toBe('picture_chosen');
    await expect(
      engine.inspect?.({ ...given, inputs: { ...inputs, face_3: ADMIRAL } }),
    ).rejects.toMatchObject({
      message: 'Picture 3 of face_keys shows another person than the first.',
    });
  });
});
