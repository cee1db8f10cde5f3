import type { Picture } from '@semblance/engine-api/picture';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { rgb, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyArcface, tinyEnhancer, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import sharp from 'sharp';
import { expect, it } from 'vitest';
import { averaged } from './stages/identity.ts';

const rig = useOnnxRig();
const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const swapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper(), options: { match: 0 } };
const enhancer: GivenModel = { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0.5, 0.2) };

/** Mean colour of the swapped face, which the tiny swapper makes of the identity. */
function colour({ data, width }: Picture): number[] {
  const sums = [0, 0, 0];
  let count = 0;
  for (let y = 270; y < 350; y += 3)
    for (let x = 215; x < 300; x += 3, count++)
      for (const c of [0, 1, 2]) sums[c] = (sums[c] as number) + (data[(y * width + x) * 3 + c] as number);
  return sums.map((sum) => sum / count);
}
const apart = (a: readonly number[], b: readonly number[]) =>
  Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));

it('averages directions, and keeps the mean length', () => {
  const one = Float32Array.of(3, 0);
  expect(averaged([one])).toBe(one);
  expect(averaged([])).toEqual(new Float32Array());
  // Directions count alike, however long the embeddings are.
  const mean = averaged([one, Float32Array.of(0, 1)]);
  expect(mean[0]).toBeCloseTo(Math.SQRT2, 5);
  expect(mean[1]).toBeCloseTo(Math.SQRT2, 5);
});

it('draws the face of the averaged identity', async () => {
  const engine = await rig.engine([arcface, swapper]);
  const tinted = await rig.file(
    'face.png',
    sharp(rig.face).modulate({ brightness: 0.8, hue: 12 }).png().toBuffer(),
  );
  const swap = async (faces: Record<string, string>) => {
    const { outputPath, details, findings } = await rig.swap(engine, {
      inputs: { image: rig.image, ...faces },
    });
    return { colour: colour(await rgb(outputPath)), details, findings };
  };
  const [one, other, both, twice] = [
    await swap({ face: rig.face }),
    await swap({ face: tinted }),
    await swap({ face: rig.face, face_2: tinted }),
    await swap({ face: rig.face, face_2: rig.face }),
  ];
  expect(apart(one.colour, other.colour)).toBeGreaterThan(1);
  expect(apart(both.colour, one.colour)).toBeGreaterThan(0.3);
  expect(apart(both.colour, other.colour)).toBeGreaterThan(0.3);
  expect(apart(twice.colour, one.colour)).toBeLessThan(0.5);
  expect(both.details).toMatchObject({ face_pictures: 2 });
  expect(both.findings?.hints.some(({ code }) => code === 'picture_chosen')).toBe(false);
  await expect(swap({ face: rig.face, face_2: rig.image })).rejects.toMatchObject({
    message: 'Picture 2 of face_keys shows another person than the first.',
  });
});

it('takes the best picture where no model swaps', async () => {
  const engine = await rig.engine([enhancer]);
  const inputs = { image: rig.image, face: rig.face, face_2: rig.face };
  const { findings } = await rig.swap(engine, { inputs });
  expect(findings?.hints[0]?.code).toBe('picture_chosen');
});
