import { readdir } from 'node:fs/promises';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FACE, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyAnchored } from '@semblance/testkit/engine-onnx/tiny-detectors';
import {
  LENGTH,
  tiny2dfan4,
  tinyArcface,
  tinyEnhancer,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { expect, it } from 'vitest';

const rig = useOnnxRig();
const detector: GivenModel = { contract: 'scrfd_2.5g', bytes: tinyAnchored([FACE]) };
const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const inswapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper() };

/** Returns a model that gives one value everywhere, whatever its input. */
function always(contract: string, value: number, seen: number[], given: number[]): GivenModel {
  const graph = new GraphBuilder();
  graph.input('input', seen);
  const values = new Float32Array(given.reduce((product, size) => product * size)).fill(value);
  graph.output(graph.weight(values, given), 'output', given);
  return { contract, bytes: graph.build() };
}

const points = (at: number) => Array.from({ length: 68 }, () => [at, 32] as const);

it.each<[string, number, GivenModel[]]>([
  ['an enhancer', Number.NaN, [{ contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 1, Number.NaN) }]],
  ['an enhancer', Infinity, [{ contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 1, Infinity) }]],
  ['a parser', Number.NaN, [always('bisenet_resnet_18', Number.NaN, [1, 3, 512, 512], [1, 19, 512, 512])]],
  ['an occlusion model', Number.NaN, [always('xseg_1', Number.NaN, [1, 256, 256, 3], [1, 256, 256, 1])]],
  ['landmarks', Number.NaN, [{ contract: '2dfan4', bytes: tiny2dfan4(points(Number.NaN), 1) }]],
  [
    'the heat maps of landmarks',
    Number.NaN,
    [{ contract: '2dfan4', bytes: tiny2dfan4(points(9), Number.NaN) }],
  ],
  [
    'a converter',
    -Infinity,
    [
      always('crossface_ghost', -Infinity, [1, LENGTH], [1, LENGTH]),
      arcface,
      { contract: 'ghost_1_256', bytes: tinySwapper({ size: 256 }) },
    ],
  ],
  [
    'a recogniser',
    Number.NaN,
    [always(arcface.contract, Number.NaN, [1, 3, 112, 112], [1, LENGTH]), inswapper],
  ],
  ['a swapper', Number.NaN, [{ ...inswapper, bytes: tinySwapper({ range: [Number.NaN, 0] }) }, arcface]],
])('a job fails, and says by which model, when %s gives %d', async (_, value, models) => {
  const needed = models.some(({ contract }) => contract === arcface.contract) ? [] : [arcface, inswapper];
  const engine = await rig.engine([detector, ...models, ...needed]);
  const outputDir = await rig.outputDir();
  await expect(rig.swap(engine, { outputDir }), String(value)).rejects.toMatchObject({
    code: 'processing_failed',
    message: `The model ${models[0]?.contract} gave values that are not finite numbers.`,
  });
  expect(await readdir(outputDir)).toEqual([]);
});
