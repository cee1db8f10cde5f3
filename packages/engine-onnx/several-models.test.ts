import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { rgb, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import {
  ARCFACE_112_V1,
  ARCFACE_128,
  referenceColour,
  throughEmap,
  unit,
} from '@semblance/testkit/engine-onnx/swap-reference';
import {
  arcface,
  detector,
  identity,
  inswapper,
  offReference,
  pixel,
  SIGNED,
  swapped,
} from '@semblance/testkit/engine-onnx/swap-tests';
import { tinyConverter, tinyEnhancer, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { describe, expect, it } from 'vitest';
import { openModelDir } from './model-dir.ts';

const rig = useOnnxRig();

describe('several models for a stage', () => {
  const small = { max_face: 100 };

  it('each face is swapped by the first that fits its size', async () => {
    const hyperswap = (options: Record<string, unknown>): GivenModel => ({
      contract: 'hyperswap_1a_256',
      bytes: tinySwapper({ size: 256 }),
      options: { match: 0, ...options },
    });
    const engine = await rig.engine([detector, arcface, inswapper(small), hyperswap({})]);
    const { details, outputPath } = await rig.swap(engine);
    // The face is 250 pixels wide.
    expect(details.swapper).toBe('onnx hyperswap_1a_256');
    const colour = referenceColour(unit(await identity(rig)));
    expect(
      await offReference(rig, await rgb(outputPath), colour, { size: 256, template: ARCFACE_128, ...SIGNED }),
    ).toBeLessThan(1.2);
    const other = await rig.engine([detector, arcface, inswapper({ min_face: 200 }), hyperswap({})]);
    expect((await rig.swap(other)).details.swapper).toBe('onnx inswapper_128');
    // The last one takes a face that none fits.
    const none = await rig.engine([detector, arcface, inswapper(small), hyperswap(small)]);
    expect((await rig.swap(none)).details.swapper).toBe('onnx hyperswap_1a_256');
  });

  it('each swapper has the converter that it needs', async () => {
    const engine = await rig.engine([
      detector,
      arcface,
      { contract: 'simswap_256', bytes: tinySwapper({ size: 256 }), options: { match: 0, ...small } },
      { contract: 'ghost_1_256', bytes: tinySwapper({ size: 256 }), options: { match: 0 } },
      { contract: 'crossface_simswap', bytes: tinyConverter(0) },
      { contract: 'crossface_ghost', bytes: tinyConverter() },
    ]);
    const { details, outputPath } = await rig.swap(engine);
    expect(details.swapper).toBe('onnx ghost_1_256');
    const colour = referenceColour((await identity(rig)).map((value) => value / 2));
    expect(
      await offReference(rig, await rgb(outputPath), colour, {
        size: 256,
        template: ARCFACE_112_V1,
        ...SIGNED,
      }),
    ).toBeLessThan(1.2);
  });

  it('a face that no enhancer fits is not restored', async () => {
    const enhancer = (options: Record<string, unknown>): GivenModel => ({
      contract: 'gfpgan_1.4',
      bytes: tinyEnhancer(512, 0, 0.2),
      options: { blend: 1, ...options },
    });
    expect(await swapped(rig, [arcface, inswapper(), enhancer(small)])).toEqual(
      await swapped(rig, [arcface, inswapper()]),
    );
    expect(pixel(await swapped(rig, [arcface, inswapper(), enhancer({ min_face: 200 })]), 256, 300, 0)).toBe(
      153,
    );
  });

  it.each<[string, GivenModel[], RegExp]>([
    [
      'one that takes every face before another',
      [inswapper(), { ...inswapper(), name: 'other' }],
      /^inswapper_128 .*: takes every face, so the next model for swapper is never used; give it min_face or max_face$/,
    ],
    [
      'sizes that no face has',
      [inswapper({ min_face: 300, max_face: 200 })],
      /^inswapper_128 .*options\.min_face: must not be more than max_face$/,
    ],
    [
      'two converters for one contract',
      ['one', 'two'].map((name) => ({ contract: 'crossface_ghost', name, bytes: tinyConverter() })),
      /one \(crossface_ghost\) and two \(crossface_ghost\) would both do this stage/,
    ],
  ])('refused: %s', async (_, models, fault) => {
    const { faults } = await openModelDir(await rig.modelDir([arcface, ...models]));
    expect(faults).toEqual([expect.stringMatching(fault)]);
  });
});

describe('order', () => {
  const enhancer: GivenModel = {
    contract: 'gfpgan_1.4',
    bytes: tinyEnhancer(512, 0, 0.2),
    options: { blend: 1 },
  };

  it('is that of the manifest', async () => {
    const last = await swapped(rig, [arcface, inswapper(), enhancer]);
    expect(pixel(last, 256, 300, 0)).toBe(153);
    const engine = await rig.engine(
      [detector, arcface, inswapper(), enhancer],
      ['enhancer', 'swapper', 'expression'],
    );
    const first = await rgb((await rig.swap(engine)).outputPath);
    // The swapper draws over what the enhancer made: 0.4 of its grey, and 0.6 of its own colour.
    const colour = referenceColour(throughEmap(await identity(rig)));
    expect(
      Math.abs(pixel(first, 256, 300, 0) - (0.4 * 153 + 0.6 * 255 * (colour[0] as number))),
    ).toBeLessThan(1.5);
  });

  it.each([
    [['swapper', 'enhancer'], /must name each of swapper, expression, enhancer once/],
    [['expression', 'swapper', 'enhancer'], /must have expression after swapper/],
    [['swapper', 'swapper', 'enhancer'], /must name each/],
  ])('%j is refused', async (order, fault) => {
    const { faults } = await openModelDir(await rig.modelDir([arcface, inswapper()], order));
    expect(faults[0]).toMatch(fault);
  });
});
