import type { Picture } from '@semblance/engine-api/picture';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FIVE, rgb, SIDE, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import {
  ARCFACE_112_V1,
  ARCFACE_112_V2,
  type ReferenceSwap,
  referenceColour,
  referenceEmbedding,
  referenceMeans,
  throughEmap,
  unit,
} from '@semblance/testkit/engine-onnx/swap-reference';
import {
  arcface,
  detector,
  INSWAPPER,
  identity,
  inswapper,
  offReference,
  pixel,
  SIGNED,
  swapped,
  UNIT,
} from '@semblance/testkit/engine-onnx/swap-tests';
import { tinyLivePortrait } from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import {
  tinyBisenet,
  tinyConverter,
  tinyPictureSwapper,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { changedOutside } from '@semblance/testkit/quality/measures';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { openModelDir } from './model-dir.ts';

const rig = useOnnxRig();
const FFHQ = [
  [0.37691676, 0.46864664],
  [0.62285697, 0.46912813],
  [0.50123859, 0.61331904],
  [0.39308822, 0.725411],
  [0.61150205, 0.72490465],
] as const;

describe('boost', () => {
  it('draws the crop at a multiple of the network’s size, in interleaved parts', async () => {
    const colour = referenceColour(throughEmap(await identity(rig)));
    const [plain, boosted] = [
      await swapped(rig, [arcface, inswapper()]),
      await swapped(rig, [arcface, inswapper({ boost: 512 })]),
    ];
    // The tiny swapper changes each pixel by itself, so the parts join to a swap at this size.
    expect(await offReference(rig, boosted, colour, { ...INSWAPPER, size: 512 })).toBeLessThan(0.7);
    expect(await offReference(rig, plain, colour, { ...INSWAPPER, size: 512 })).toBeGreaterThan(1.5);
    // A pixel of the plain crop covers 3.6 of the picture.
    expect(await swapped(rig, [arcface, inswapper({ boost: 'auto' })])).toEqual(boosted);
  });

  it.each([[200], [2048], ['most']])('refuses %j', async (boost) => {
    const { faults } = await openModelDir(await rig.modelDir([arcface, inswapper({ boost })]));
    expect(faults).toEqual([expect.stringMatching(/^inswapper_128 .*options\.boost: /)]);
  });
});

describe('weight', () => {
  it.each<
    [
      string,
      number,
      GivenModel[],
      ReferenceSwap,
      (e: Float64Array) => Float64Array,
      (e: Float64Array) => Float64Array,
    ]
  >([
    ['inswapper_128', 0, [inswapper({ weight: 0 })], INSWAPPER, throughEmap, unit],
    ['inswapper_128', 1, [inswapper({ weight: 1 })], INSWAPPER, throughEmap, unit],
    [
      'ghost_1_256',
      0.2,
      [
        { contract: 'ghost_1_256', bytes: tinySwapper({ size: 256 }), options: { match: 0, weight: 0.2 } },
        { contract: 'crossface_ghost', bytes: tinyConverter() },
      ],
      {
        size: 256,
        template: ARCFACE_112_V1,
        ...SIGNED,
      },
      (embedding) => embedding.map((value) => value / 2),
      (embedding) => embedding,
    ],
  ])(
    'of %s at %d mixes in the target’s identity, or takes it away',
    async (_, weight, models, how, source, own) => {
      const target = own(referenceEmbedding(await rgb(rig.image), FIVE));
      // FaceFusion interpolates from 0.35 to -0.35.
      const share = 0.35 - 0.7 * weight;
      const mixed = source(await identity(rig)).map(
        (value, i) => value * (1 - share) + (target[i] as number) * share,
      );
      expect(
        await offReference(rig, await swapped(rig, [arcface, ...models]), referenceColour(mixed), how),
      ).toBeLessThan(1.2);
    },
  );

  it('of 0.5 leaves the identity as it is', async () => {
    expect(await swapped(rig, [arcface, inswapper({ weight: 0.5 })])).toEqual(
      await swapped(rig, [arcface, inswapper()]),
    );
  });
});

it('latent_norm: projected divides by the length of the projected vector, as InsightFace does', async () => {
  const after = await swapped(rig, [arcface, inswapper({ latent_norm: 'projected' })]);
  expect(
    await offReference(rig, after, referenceColour(unit(throughEmap(await identity(rig)))), INSWAPPER),
  ).toBeLessThan(1.2);
  const { faults } = await openModelDir(
    await rig.modelDir([
      arcface,
      {
        contract: 'hyperswap_1a_256',
        bytes: tinySwapper({ size: 256 }),
        options: { latent_norm: 'projected' },
      },
    ]),
  );
  expect(faults).toEqual([expect.stringMatching(/Unrecognized key: "latent_norm"/)]);
});

describe('a swapper whose source is a picture', () => {
  it.each<[string, number, readonly (readonly [number, number])[], Omit<ReferenceSwap, 'size' | 'template'>]>(
    [
      ['blendswap_256', 112, ARCFACE_112_V2, UNIT],
      ['uniface_256', 256, FFHQ, SIGNED],
    ],
  )('%s needs no recogniser', async (contract, side, template, scale) => {
    const model = { contract, bytes: tinyPictureSwapper(side), options: { match: 0 } };
    const engine = await rig.engine([detector, model]);
    const { outputPath, details } = await rig.swap(engine);
    expect(details.swapper).toBe(`onnx ${contract}`);
    expect(details.recogniser).toBeUndefined();
    const colour = referenceMeans(await rgb(rig.face), FIVE, template, side);
    expect(
      await offReference(rig, await rgb(outputPath), colour, { size: 256, template: FFHQ, ...scale }),
    ).toBeLessThan(1.2);
  });
});

describe('mask', () => {
  /** Number of pixels that changed, and how many of them lie outside of the face's outline. */
  async function reach(models: readonly GivenModel[]): Promise<{ all: number; outside: number }> {
    // Without a detector the outline is the same as here.
    const engine = await rig.engine(models);
    const [before, after] = [await rgb(rig.image), await rgb((await rig.swap(engine)).outputPath)];
    let all = 0;
    for (let i = 0; i < before.data.length; i += 3) if (before.data[i] !== after.data[i]) all++;
    return { all, outside: changedOutside(before, after, await rig.mesh(before)) };
  }

  it('oval, which is the default, ends at the outline; box takes the whole crop', async () => {
    const oval = await reach([arcface, inswapper()]);
    expect(oval.outside).toBe(0);
    expect(await reach([arcface, inswapper({ mask: 'oval' })])).toEqual(oval);
    const box = await reach([arcface, inswapper({ mask: 'box' })]);
    expect(box.outside).toBeGreaterThan(5_000);
    expect(box.all).toBeGreaterThan(1.2 * oval.all);
  });

  it('parser takes what the parser sees as face in what was drawn', async () => {
    const parser = { contract: 'bisenet_resnet_18', bytes: tinyBisenet() };
    // It draws blue on the whole crop, and blue is hair for this parser.
    const blue = tinySwapper({ range: [0, 0], tint: [0, 0, 1] });
    const drawn = { ...inswapper({ mask: 'parser' }), bytes: blue };
    expect((await reach([arcface, drawn, parser])).all).toBe(0);
    const face = await reach([arcface, inswapper({ mask: 'parser' }), parser]);
    expect(face.outside).toBeGreaterThan(5_000);
  });

  it('parser needs a parser', async () => {
    const { faults } = await openModelDir(await rig.modelDir([arcface, inswapper({ mask: 'parser' })]));
    expect(faults).toEqual([
      'inswapper_128 (inswapper_128.onnx): its options need a model for parser, and the manifest has none',
    ]);
  });
});

describe('match', () => {
  it('gives the face the light and grain of its picture', async () => {
    const light = Buffer.alloc(SIDE * SIDE * 3);
    for (let i = 0; i < SIDE * SIDE; i++) {
      // Light from the left, reddish, with noise.
      const noise = (Math.imul(i + 1, 2654435761) >>> 24) / 255;
      const bright = 40 + 180 * (1 - (i % SIDE) / SIDE) + 40 * noise;
      light.set([bright, 0.8 * bright, 0.6 * bright], i * 3);
    }
    const raw = { raw: { width: SIDE, height: SIDE, channels: 3 as const } };
    const lamp = await sharp(light, raw).png().toBuffer();
    const image = await rig.file(
      'lit.png',
      sharp(rig.image)
        .composite([{ input: lamp, blend: 'multiply' }])
        .png()
        .toBuffer(),
    );
    const before = await rgb(image);
    const off = (after: Picture): number => {
      let sum = 0;
      for (const [left, top] of [
        [150, 250],
        [330, 250],
        [230, 420],
        [240, 160],
      ] as const) {
        for (let c = 0; c < 3; c++) {
          let [was, is] = [0, 0];
          for (let y = top; y < top + 30; y++)
            for (let x = left; x < left + 30; x++) {
              was += pixel(before, x, y, c);
              is += pixel(after, x, y, c);
            }
          sum += Math.abs(was - is) / 900 / 12;
        }
      }
      return sum;
    };
    const plain = off(await swapped(rig, [arcface, inswapper()], image));
    const matched = off(await swapped(rig, [arcface, inswapper({ match: 1 })], image));
    const half = off(await swapped(rig, [arcface, inswapper({ match: 0.5 })], image));
    expect(matched).toBeLessThan(0.35 * plain);
    expect(half).toBeGreaterThan(matched);
    expect(half).toBeLessThan(plain);
    // It is the default.
    const { options: _, ...left } = inswapper();
    expect(off(await swapped(rig, [arcface, left], image))).toBe(matched);
  });
});

describe('expression', () => {
  it('is put back by LivePortrait after the swap', async () => {
    const engine = await rig.engine([detector, arcface, inswapper({ expression: 1 }), ...tinyLivePortrait()]);
    const { details, outputPath } = await rig.swap(engine);
    expect(details).toMatchObject({
      motion: 'onnx live_portrait_motion_extractor',
      features: 'onnx live_portrait_feature_extractor',
      generator: 'onnx live_portrait_generator',
    });
    // The tiny generator mixes the face with colours of its key points.
    const [plain, after] = [await swapped(rig, [arcface, inswapper()]), await rgb(outputPath)];
    let moved = 0;
    for (let x = 200; x < 300; x++)
      moved += Math.abs(pixel(plain, x, 300, 1) - pixel(after, x, 300, 1)) / 100;
    expect(moved).toBeGreaterThan(2);
    expect(pixel(after, 20, 20, 1)).toBe(pixel(plain, 20, 20, 1));
  });

  it('needs LivePortrait', async () => {
    const { faults } = await openModelDir(await rig.modelDir([arcface, inswapper({ expression: 0.5 })]));
    expect(faults).toEqual([
      'inswapper_128 (inswapper_128.onnx): its options need a model for portrait-generator, and the manifest has none',
    ]);
  });
});
