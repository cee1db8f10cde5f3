import { readdir } from 'node:fs/promises';
import type { Picture } from '@semblance/engine-api/picture';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FACE, FIVE, rgb, SIDE, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import {
  ARCFACE_112_V1,
  ARCFACE_128,
  type ReferenceSwap,
  referenceColour,
  referenceEmbedding,
  referenceSwap,
  throughEmap,
  unit,
} from '@semblance/testkit/engine-onnx/swap-reference';
import { tinyAnchored, tinyYunet } from '@semblance/testkit/engine-onnx/tiny-detectors';
import {
  tinyArcface,
  tinyBisenet,
  tinyConverter,
  tinyEnhancer,
  tinySwapper,
  tinyXseg,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { changedOutside } from '@semblance/testkit/quality/measures';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';

const rig = useOnnxRig();
const detector: GivenModel = { contract: 'scrfd_2.5g', bytes: tinyAnchored([FACE]) };
const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
/** Leaves a swapper's colours as they are, so that they are those that the model defines. */
const AS_DRAWN = { match: 0 };
const inswapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper(), options: AS_DRAWN };

const UNIT = { mean: [0, 0, 0], deviation: [1, 1, 1], denormalise: false };
const SIGNED = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5], denormalise: true };

/** Yields pixels around the nose, well inside any mask. */
function* middle(): Generator<[number, number]> {
  for (let y = 270; y < 350; y += 3) for (let x = 215; x < 300; x += 3) yield [x, y];
}

function pixel(picture: Picture, x: number, y: number, c: number): number {
  return picture.data[(y * picture.width + x) * 3 + c] as number;
}

describe('a swap by the owner’s models gives the numbers that the models define', () => {
  const converted = (embedding: Float64Array): Float64Array => embedding.map((value) => value / 2);
  it.each<[string, GivenModel[], (embedding: Float64Array) => Float64Array, ReferenceSwap]>([
    ['inswapper_128', [inswapper], throughEmap, { size: 128, template: ARCFACE_128, ...UNIT }],
    [
      'inswapper_128_fp16',
      [{ contract: 'inswapper_128_fp16', bytes: tinySwapper({ type: 'float16' }), options: AS_DRAWN }],
      throughEmap,
      { size: 128, template: ARCFACE_128, ...UNIT },
    ],
    [
      'hyperswap_1a_256',
      [{ contract: 'hyperswap_1a_256', bytes: tinySwapper({ size: 256, batch: 'n' }), options: AS_DRAWN }],
      unit,
      { size: 256, template: ARCFACE_128, ...SIGNED },
    ],
    [
      'ghost_1_256',
      [
        { contract: 'ghost_1_256', bytes: tinySwapper({ size: 256 }), options: AS_DRAWN },
        { contract: 'crossface_ghost', bytes: tinyConverter() },
      ],
      converted,
      { size: 256, template: ARCFACE_112_V1, ...SIGNED },
    ],
    [
      'simswap_256',
      [
        { contract: 'simswap_256', bytes: tinySwapper({ size: 256 }), options: AS_DRAWN },
        { contract: 'crossface_simswap', bytes: tinyConverter() },
      ],
      (embedding) => unit(converted(embedding)),
      {
        size: 256,
        template: ARCFACE_112_V1,
        mean: [0.485, 0.456, 0.406],
        deviation: [0.229, 0.224, 0.225],
        denormalise: false,
      },
    ],
  ])('%s', async (name, models, identity, how) => {
    const engine = await rig.engine([detector, arcface, ...models]);
    const { outputPath, details, findings, units } = await rig.swap(engine);
    expect(units).toEqual({ unit: 'image', quantity: 1 });
    const used = [detector, arcface, ...models].map(({ contract }) => contract);
    expect(findings?.models?.map((model) => model.name).sort()).toEqual(used.sort());
    expect(details).toMatchObject({
      faces: 1,
      width: SIDE,
      height: SIDE,
      detector: 'onnx scrfd_2.5g',
      recogniser: 'onnx arcface_w600k_r50',
      swapper: `onnx ${name}`,
    });
    const [before, source, after] = [await rgb(rig.image), await rgb(rig.face), await rgb(outputPath)];
    const colour = referenceColour(identity(referenceEmbedding(source, FIVE)));
    const wanted = referenceSwap(before, FIVE, colour, how);
    let sum = 0;
    let worst = 0;
    let count = 0;
    let moved = 0;
    for (const [x, y] of middle()) {
      for (let c = 0; c < 3; c++) {
        const off = Math.abs(pixel(after, x, y, c) - wanted.read(x + 0.5, y + 0.5, c));
        sum += off;
        worst = Math.max(worst, off);
        moved += Math.abs(pixel(after, x, y, c) - pixel(before, x, y, c));
        count++;
      }
    }
    // The engine and the reference interpolate the picture differently.
    expect(sum / count).toBeLessThan(1.2);
    expect(worst).toBeLessThan(25);
    expect(moved / count).toBeGreaterThan(10);
  });

  it('with another identity, another colour', async () => {
    const engine = await rig.engine([detector, arcface, inswapper]);
    const one = await rgb((await rig.swap(engine)).outputPath);
    const inputs = { image: rig.image, face: rig.image };
    const other = await rgb((await rig.swap(engine, { inputs })).outputPath);
    expect(pixel(one, 256, 300, 0)).not.toBe(pixel(other, 256, 300, 0));
  });
});

describe('what is not the face stays', () => {
  it('bit by bit outside of its outline, softly mixed inside of it', async () => {
    // There is no detector, so that the outline is the same as in the reference.
    const engine = await rig.engine([
      arcface,
      inswapper,
      { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0.5, 0.1) },
    ]);
    const [before, after] = [await rgb(rig.image), await rgb((await rig.swap(engine)).outputPath)];
    expect(changedOutside(before, after, await rig.mesh(before))).toBe(0);
    let steepest = 0;
    for (let x = 100; x < 400; x++) {
      const change = (at: number): number => pixel(after, at, 300, 1) - pixel(before, at, 300, 1);
      if (Math.abs(change(x)) + Math.abs(change(x + 1)) > 0) {
        steepest = Math.max(
          steepest,
          Math.abs(change(x + 1) - change(x)) -
            Math.abs(pixel(before, x + 1, 300, 1) - pixel(before, x, 300, 1)),
        );
      }
    }
    expect(steepest).toBeLessThan(25);
  });

  it.each<[string, GivenModel, string]>([
    ['an occlusion network sees in front of it', { contract: 'xseg_2', bytes: tinyXseg() }, '#20d030'],
    ['a parser calls hair', { contract: 'bisenet_resnet_18', bytes: tinyBisenet() }, '#2030f0'],
  ])('what %s', async (_, model, colour) => {
    const engine = await rig.engine([detector, arcface, inswapper, model]);
    const thing = { left: 250, top: 280, width: 70, height: 70 };
    const overlay = await sharp({ create: { width: 70, height: 70, channels: 3, background: colour } })
      .png()
      .toBuffer();
    const image = await rig.file(
      'covered.png',
      sharp(rig.image)
        .composite([{ input: overlay, left: thing.left, top: thing.top }])
        .png()
        .toBuffer(),
    );
    const { outputPath, details } = await rig.swap(engine, { inputs: { image, face: rig.face } });
    expect(Object.values(details)).toContain(`onnx ${model.contract}`);
    const [before, after] = [await rgb(image), await rgb(outputPath)];
    let changed = 0;
    for (let y = thing.top + 6; y < thing.top + 64; y++) {
      for (let x = thing.left + 6; x < thing.left + 64; x++) {
        if (pixel(before, x, y, 0) !== pixel(after, x, y, 0)) changed++;
      }
    }
    expect(changed).toBe(0);
    expect(Math.abs(pixel(after, 225, 300, 0) - pixel(before, 225, 300, 0))).toBeGreaterThan(2);
  });

  it('at 16 bits and in grey', async () => {
    const engine = await rig.engine([detector, arcface, inswapper]);
    const deep = await rig.file('deep.png', sharp(rig.image).toColourspace('rgb16').png().toBuffer());
    const one = await rig.swap(engine, { inputs: { image: deep, face: rig.face } });
    expect((await sharp(one.outputPath).metadata()).depth).toBe('ushort');
    const [was, is, eight] = [
      await rgb(rig.image),
      await rgb(one.outputPath),
      await rgb((await rig.swap(engine)).outputPath),
    ];
    for (const [x, y] of middle())
      expect(Math.abs(pixel(is, x, y, 1) - pixel(eight, x, y, 1))).toBeLessThanOrEqual(1);
    expect(pixel(is, 5, 5, 0)).toBe(pixel(was, 5, 5, 0));
    const grey = await rig.file('grey.png', sharp(rig.image).toColourspace('b-w').png().toBuffer());
    const two = await rig.swap(engine, { inputs: { image: grey, face: rig.face } });
    expect((await sharp(two.outputPath).metadata()).space).toBe('b-w');
  });
});

describe('an enhancer', () => {
  it('works on the swapped face, to the share its options say', async () => {
    // It gives a flat grey: 0.2 in the range [-1, 1].
    const enhancer = (blend: number): GivenModel => ({
      contract: 'gfpgan_1.3',
      bytes: tinyEnhancer(512, 0, 0.2),
      options: { blend },
    });
    const models = [detector, arcface, inswapper];
    const plain = await rgb((await rig.swap(await rig.engine(models))).outputPath);
    const all = await rgb((await rig.swap(await rig.engine([...models, enhancer(1)]))).outputPath);
    const half = await rgb((await rig.swap(await rig.engine([...models, enhancer(0.5)]))).outputPath);
    for (const [x, y] of middle()) {
      expect(pixel(all, x, y, 0)).toBe(153);
      expect(Math.abs(pixel(half, x, y, 2) - (pixel(plain, x, y, 2) + 153) / 2)).toBeLessThanOrEqual(1);
    }
  });

  it.each([
    ['an array', [1], 'input'],
    ['a scalar, as PyTorch exports it, and the picture under another name', [], 'input.1'],
  ] as const)('is told its weight as %s', async (_, dims, name) => {
    const models = [detector, arcface, inswapper];
    const codeformer = (weight: number): GivenModel => ({
      contract: 'codeformer',
      bytes: tinyEnhancer(512, 1, 0, dims, name),
      options: { weight, blend: 1 },
    });
    const plain = await rgb((await rig.swap(await rig.engine(models))).outputPath);
    const { outputPath } = await rig.swap(await rig.engine([...models, codeformer(0.3)]));
    const weighted = await rgb(outputPath);
    for (const [x, y] of middle()) {
      // The picture is 0 in the middle of [-1, 1].
      const wanted = 127.5 + 0.3 * (pixel(plain, x, y, 0) - 127.5);
      expect(Math.abs(pixel(weighted, x, y, 0) - wanted)).toBeLessThan(3);
    }
  });
});

describe('what the directory has no model for, builtin makes, and the result says so', () => {
  it('finds faces without a detector', async () => {
    const engine = await rig.engine([arcface, inswapper]);
    const { details, stages, outputPath } = await rig.swap(engine);
    expect(details).toMatchObject({ detector: 'builtin blazeface', swapper: 'onnx inswapper_128', faces: 1 });
    expect(stages).toContainEqual({ name: 'detector', milliseconds: expect.any(Number), engine: 'builtin' });
    expect(stages.find(({ name }) => name === 'swapper')?.engine).toBeUndefined();
    const [before, after] = [await rgb(rig.image), await rgb(outputPath)];
    expect(changedOutside(before, after, await rig.mesh(before))).toBe(0);
    expect(Math.abs(pixel(after, 256, 300, 0) - pixel(before, 256, 300, 0))).toBeGreaterThan(2);
  });

  it('takes the middle of the crop where it sees no face itself', async () => {
    const engine = await rig.engine([detector, arcface, inswapper]);
    const blank = sharp({ create: { width: SIDE, height: SIDE, channels: 3, background: '#4080c0' } });
    const image = await rig.file('plain.png', blank.png().toBuffer());
    const { outputPath, details } = await rig.swap(engine, { inputs: { image, face: rig.face } });
    expect(details).toMatchObject({ faces: 1, detector: 'onnx scrfd_2.5g' });
    const [before, after] = [await rgb(image), await rgb(outputPath)];
    // The template places the crop of 128 pixels from (27, 55) to (485, 513).
    let [left, top, right, bottom] = [SIDE, SIDE, 0, 0];
    for (let y = 0; y < SIDE; y++) {
      for (let x = 0; x < SIDE; x++) {
        if (pixel(after, x, y, 0) === pixel(before, x, y, 0)) continue;
        [left, top, right, bottom] = [
          Math.min(left, x),
          Math.min(top, y),
          Math.max(right, x),
          Math.max(bottom, y),
        ];
      }
    }
    expect(left).toBeGreaterThan(40);
    expect(right).toBeLessThan(472);
    expect(top).toBeGreaterThan(60);
    expect(right - left).toBeGreaterThan(300);
    expect(bottom - top).toBeGreaterThan(300);
  });

  it('swaps without a swapper', async () => {
    const engine = await rig.engine([
      { contract: 'yunet_2023_mar', bytes: tinyYunet([FACE]) },
      { contract: 'restoreformer_plus_plus', bytes: tinyEnhancer(512, 1, 0), options: { blend: 0.5 } },
    ]);
    const { details, stages, outputPath } = await rig.swap(engine);
    expect(details).toMatchObject({
      detector: 'onnx yunet_2023_mar',
      outline: 'builtin facemesh',
      swapper: 'builtin mesh',
      enhancer: 'onnx restoreformer_plus_plus',
    });
    expect(stages.find(({ name }) => name === 'swapper')?.engine).toBe('builtin');
    const [before, after] = [await rgb(rig.image), await rgb(outputPath)];
    expect(Math.abs(pixel(after, 256, 300, 0) - pixel(before, 256, 300, 0))).toBeGreaterThan(2);
  });

  it('offers nothing that the models add nothing to', { tags: ['ffmpeg'] }, async () => {
    await expect(rig.engine([arcface])).rejects.toThrow(
      /^no capability can be made of the models in .* \(recogniser\)$/,
    );
    await expect(rig.engine([detector, inswapper])).rejects.toThrow(
      /inswapper_128 needs a arcface_w600k_r50/,
    );
  });
});

describe('refusals and ends', () => {
  it('says in which picture no face was found', async () => {
    const engine = await rig.engine([arcface, inswapper]);
    const blank = await rig.file(
      'blank.png',
      sharp({ create: { width: 300, height: 300, channels: 3, background: '#48a' } })
        .png()
        .toBuffer(),
    );
    await expect(rig.swap(engine, { inputs: { image: blank, face: rig.face } })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/base image/),
    });
    await expect(rig.swap(engine, { inputs: { image: rig.image, face: blank } })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/face picture/),
    });
    const broken = await rig.file('broken.png', Buffer.from('no picture'));
    await expect(rig.swap(engine, { inputs: { image: broken, face: rig.face } })).rejects.toMatchObject({
      code: 'unsupported_format',
    });
  });

  it('ends when cancelled, leaves nothing, and renders again', async () => {
    const engine = await rig.engine([detector, arcface, inswapper]);
    const abort = new AbortController();
    const outputDir = await rig.outputDir();
    const stages: string[] = [];
    const onProgress = (_: number, stage: string): void => {
      stages.push(stage);
      if (stage === 'swap') abort.abort(new Error('changed his mind'));
    };
    await expect(rig.swap(engine, { outputDir, signal: abort.signal, onProgress })).rejects.toThrow(
      'changed his mind',
    );
    expect(stages.at(-1)).toBe('swap');
    expect(await readdir(outputDir)).toEqual([]);
    const seen: number[] = [];
    await rig.swap(engine, { onProgress: (fraction) => seen.push(fraction) });
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(1);
  });
});
