/** @module-tag ffmpeg */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Engine } from '@semblance/engine-api/engine';
import { announcementsFault, type RenderOptions } from '@semblance/engine-api/option';
import type { Picture } from '@semblance/engine-api/picture';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { rgb, SIDE, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyArcface, tinyEnhancer, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { expect, it } from 'vitest';

const rig = useOnnxRig();
const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const inswapper = (options = {}): GivenModel => ({
  contract: 'inswapper_128',
  bytes: tinySwapper(),
  options: { match: 0, ...options },
});
const enhancer = (options = {}): GivenModel => ({
  contract: 'gfpgan_1.4',
  bytes: tinyEnhancer(512, 0.5, 0.2),
  options,
});

const optionsOf = (engine: Engine, name: string) =>
  engine.capabilities.find(({ capability }) => capability === name)?.options ?? [];

async function photo(engine: Engine, options: RenderOptions = {}): Promise<Picture> {
  return rgb((await rig.swap(engine, { options })).outputPath);
}

/** Mean difference of two pictures around the nose, in levels. */
function apart(a: Picture, b: Picture): number {
  let [sum, count] = [0, 0];
  for (let y = 270; y < 350; y += 3)
    for (let x = 215; x < 300; x += 3)
      for (let c = 0; c < 3; c++, count++)
        sum += Math.abs(
          (a.data[(y * SIDE + x) * 3 + c] as number) - (b.data[(y * SIDE + x) * 3 + c] as number),
        );
  return sum / count;
}

it('announces what its models can be told, with what the manifest says as defaults', async () => {
  const engine = await rig.engine([arcface, inswapper({ weight: 0.75 }), enhancer({ blend: 0.5 })]);
  const options = optionsOf(engine, 'face-swap-image');
  expect(announcementsFault(options)).toBeUndefined();
  expect(options.map(({ name, default: own }) => [name, own])).toEqual([
    ['weight', '0.75'],
    ['match', '0'],
    ['enhancer_blend', '0.5'],
    ['enhancer', 'true'],
  ]);
  const alone = await rig.engine([arcface, inswapper()]);
  expect(optionsOf(alone, 'face-swap-image').map(({ name }) => name)).toEqual(['weight', 'match']);
});

it('draws with the options of a render as with those of the manifest', async () => {
  const engine = await rig.engine([arcface, inswapper(), enhancer({ blend: 1 })]);
  const plain = await photo(engine);
  const [same, weight, without, blend] = [
    await photo(engine, { weight: 0.5, enhancer: true, enhancer_blend: 1 }),
    await photo(engine, { weight: 0 }),
    await photo(engine, { enhancer: false }),
    await photo(engine, { enhancer_blend: 0.25 }),
  ];
  expect(apart(same, plain)).toBe(0);
  const by = async (...models: GivenModel[]) => photo(await rig.engine([arcface, ...models]));
  expect(apart(weight, await by(inswapper({ weight: 0 }), enhancer({ blend: 1 })))).toBe(0);
  expect(apart(without, await by(inswapper()))).toBe(0);
  expect(apart(blend, await by(inswapper(), enhancer({ blend: 0.25 })))).toBe(0);
  for (const other of [weight, without, blend]) expect(apart(other, plain)).toBeGreaterThan(1);
  // Of several renders at once, each has its own.
  const [one, two] = await Promise.all([photo(engine), photo(engine, { enhancer: false })]);
  expect([apart(one, plain), apart(two, without)]).toEqual([0, 0]);
});

it('tells no model that was not used', async () => {
  const engine = await rig.engine([arcface, inswapper(), enhancer()]);
  const { details, findings } = await rig.swap(engine, { options: { enhancer: false } });
  expect(details).not.toHaveProperty('enhancer');
  expect(findings?.models?.map(({ name }) => name).sort()).toEqual(['arcface_w600k_r50', 'inswapper_128']);
});

it('draws the frames of a video so too', async () => {
  const clip = join(await rig.outputDir(), 'clip.mp4');
  await promisify(execFile)('ffmpeg', [
    ...['-v', 'error', '-loop', '1', '-i', rig.image, '-t', '0.4', '-r', '25'],
    ...['-vf', 'scale=320:320,format=yuv420p', '-c:v', 'libx264', clip],
  ]);
  const engine = await rig.engine([arcface, inswapper(), enhancer({ blend: 1 })]);
  const render = async (of: Engine, options: RenderOptions = {}) => {
    const inputs = { video: clip, face: rig.face };
    const { outputPath, details } = await rig.swap(of, { capability: 'face-swap', inputs, options });
    const frame = join(await rig.outputDir(), 'frame.png');
    await promisify(execFile)('ffmpeg', [
      '-v',
      'error',
      '-i',
      outputPath,
      '-frames:v',
      '1',
      '-vf',
      `scale=${SIDE}:${SIDE}`,
      frame,
    ]);
    return { details, picture: await rgb(frame) };
  };
  const plain = await render(engine);
  const without = await render(engine, { enhancer: false, weight: 0 });
  expect(plain.details).toHaveProperty('enhancer');
  expect(without.details).not.toHaveProperty('enhancer');
  const expected = await render(await rig.engine([arcface, inswapper({ weight: 0 })]));
  expect(apart(without.picture, expected.picture)).toBe(0);
  expect(apart(without.picture, plain.picture)).toBeGreaterThan(1);
});
