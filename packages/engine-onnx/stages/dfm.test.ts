import type { Picture } from '@semblance/engine-api/picture';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FIVE, rgb, SIDE, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { detector, pixel, swapped } from '@semblance/testkit/engine-onnx/swap-tests';
import { tinyDfm } from '@semblance/testkit/engine-onnx/tiny-models';
import { describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import { drawDfm } from './dfm.ts';
import type { OpenModel } from './models.ts';

const rig = useOnnxRig();

describe('a DeepFaceLab model', () => {
  const dfm = (morph: boolean, options: Record<string, unknown> = {}): GivenModel => ({
    contract: 'dfm',
    name: 'someone',
    bytes: tinyDfm(224, morph),
    options: { match: 0, ...options },
  });

  it('draws its own identity inside its own masks, and the result says so', async () => {
    const engine = await rig.engine([detector, dfm(false, { mask: 'box' })]);
    const { outputPath, details } = await rig.swap(engine);
    expect(details).toMatchObject({ swapper: 'onnx someone', identity: 'onnx someone' });
    expect(details.recogniser).toBeUndefined();
    const [before, after] = [await rgb(rig.image), await rgb(outputPath)];
    // Blue comes first in the model: 0.8 is red.
    expect([0, 1, 2].map((c) => pixel(after, 235, 280, c))).toEqual([204, 128, 51]);
    // DeepFaceLab's template has the eyes at 0.353 and 0.628 of the crop, and the target's mask ends at 0.75. Its soft
    // edge ends 10 pixels of the crop later, and the whole crop would reach on to 490.
    const unit = 126 / (0.62797622 - 0.35342266);
    const edge = Math.round((FIVE[0]?.x as number) + (0.75 - 0.35342266) * unit);
    expect(edge).toBeLessThan(380);
    expect(pixel(after, edge - 20, 300, 2)).not.toBe(pixel(before, edge - 20, 300, 2));
    for (let x = edge + 32; x < SIDE; x++) expect(pixel(after, x, 300, 2)).toBe(pixel(before, x, 300, 2));
  });

  it('morphs as far as told', async () => {
    const [half, none] = [
      await swapped(rig, [dfm(true, { morph: 0.5 })]),
      await swapped(rig, [dfm(true, { morph: 0 })]),
    ];
    // The model sees the sharpened crop.
    for (const [c, own] of [0.8, 0.5, 0.2].entries())
      expect(
        Math.abs(pixel(half, 235, 280, c) - (0.5 * pixel(none, 235, 280, c) + 127.5 * own)),
      ).toBeLessThan(1.5);
  });

  it('has no options of an identity', async () => {
    const { faults } = await openModelDir(await rig.modelDir([dfm(false, { weight: 0.3, boost: 448 })]));
    expect(faults).toEqual([expect.stringMatching(/Unrecognized keys: "weight", "boost"/)]);
  });

  it('sees its crop sharpened, and is pasted where both masks have a face', async () => {
    const size = 64;
    let seen = new Float32Array();
    const whole = { data: new Float32Array(size * size).fill(1), dims: [1, size, size, 1] };
    const half = { ...whole, data: whole.data.map((_, i) => (i % size < size / 2 ? 1 : 0)) };
    const model = {
      traits: { template: 'dfl_whole_face', order: 'bgr', identity: 'own' },
      options: {},
      model: { summary: { inputs: [{ dims: ['n', size, size, 3] }] }, inputs: [] },
      runAll: async ({ face }: FloatTensors) => {
        seen = (face as FloatTensor).data;
        return { target_mask: whole, face: face as FloatTensor, face_mask: half };
      },
    } as unknown as OpenModel;
    // A picture that is the crop itself: dark on the left, bright on the right.
    const data = Uint8Array.from({ length: size * size * 3 }, (_, i) =>
      Math.floor(i / 3) % size < 32 ? 80 : 160,
    );
    const picture: Picture = { width: size, height: size, channels: 3, data };
    const template = [
      [0.35342266, 0.39285716],
      [0.62797622, 0.39285716],
      [0.48660713, 0.5401786],
      [0.38839287, 0.68750011],
      [0.59821427, 0.68750011],
    ].map(([x = 0, y = 0]) => ({ x: x * size, y: y * size }));
    const { crop, drawn } = await drawDfm(model, picture, template, new AbortController().signal);
    const at = (x: number) => 255 * (seen[(32 * size + x) * 3] as number);
    // 1.75 times the picture less 0.75 times itself blurred: a step of 80 overshoots on both sides, by 30 at most.
    expect(at(10)).toBeCloseTo(80, 0);
    expect(at(54)).toBeCloseTo(160, 0);
    expect(at(31)).toBeGreaterThan(80 - 30);
    expect(at(31)).toBeLessThan(80 - 12);
    expect(at(32)).toBeGreaterThan(160 + 12);
    expect(crop.data[(32 * size + 32) * 3]).toBeCloseTo(at(32), 3);
    const row = drawn?.data.subarray(32 * size, 33 * size) ?? [];
    expect(row[12]).toBeCloseTo(1, 1);
    expect(row[52]).toBe(0);
    // The half-way point lies two pixels inside the mask's edge.
    expect(row[29]).toBeGreaterThan(0.45);
    expect(row[30]).toBeLessThan(0.55);
  });
});
