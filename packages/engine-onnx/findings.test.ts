import { join } from 'node:path';
import type { Capability } from '@semblance/engine-api/capabilities';
import type { Engine } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FACE, rgb, SIDE, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyAnchored, tinyYunet } from '@semblance/testkit/engine-onnx/tiny-detectors';
import {
  tinyArcface,
  tinyConverter,
  tinyEnhancer,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';

const CAT = join(import.meta.dirname, '..', '..', 'media', 'cat.jpg');
const BOARD = { left: 180, top: 330, width: 160, height: 70 };

const rig = useOnnxRig();
/** A swapper draws; `builtin` finds the faces. */
const BY_MODEL: GivenModel[] = [
  { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
  { contract: 'inswapper_128', bytes: tinySwapper() },
];
/** `builtin` finds and draws the faces; a model restores them. */
const BY_MESH: GivenModel[] = [
  { contract: 'restoreformer_plus_plus', bytes: tinyEnhancer(512, 1, 0), options: { blend: 0.5 } },
];

const inspect = (
  engine: Engine,
  inputs: Readonly<Record<string, string>>,
  capability: Capability = 'face-swap-image',
) => engine.inspect?.({ capability, inputs, parameters: {}, signal: new AbortController().signal });

/** Writes two of a picture beside each other, the second a third as large. */
async function withBystander(path: string): Promise<string> {
  const small = await sharp(path).resize(170).png().toBuffer();
  const both = sharp(path)
    .extend({ right: 200, background: '#888' })
    .composite([{ input: small, left: SIDE + 10, top: 100 }]);
  return rig.file('both.png', both.png().toBuffer());
}

/** Writes a portrait with a blue board in front of its mouth. */
async function behindBoard(path: string): Promise<string> {
  const { left, top, width, height } = BOARD;
  const board = sharp({ create: { width, height, channels: 3, background: '#3c6ec8' } });
  const input = await board.png().toBuffer();
  return rig.file('board.png', sharp(path).composite([{ input, left, top }]).png().toBuffer());
}

/** An inspection draws nothing, so it tells of no models. */
function withoutModels(findings: Findings | undefined): Partial<Findings> {
  const { models, ...rest } = findings ?? {};
  return rest;
}

describe.each([
  ['a model', BY_MODEL],
  ['builtin', BY_MESH],
])('a swap that %s draws', (_what, models) => {
  it('tells which faces it changed and which it left alone, before as afterwards', async () => {
    const engine = await rig.engine(models);
    const inputs = { image: await withBystander(rig.image), face: rig.face };
    const { findings } = await rig.swap(engine, { inputs });
    expect(findings?.faces).toEqual({ found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] });
    expect(await inspect(engine, inputs)).toEqual(withoutModels(findings));
  });

  it('gives hints about both pictures', async () => {
    const engine = await rig.engine(models);
    const small = await rig.file('small.png', sharp(rig.image).resize(120).png().toBuffer());
    const twice = sharp(rig.face)
      .extend({ right: SIDE, background: '#888' })
      .composite([{ input: rig.image, left: SIDE, top: 0 }]);
    const face = await rig.file('twice.png', twice.png().toBuffer());
    const { findings } = await rig.swap(engine, { inputs: { image: small, face } });
    expect(findings?.hints).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ code: 'several_faces', input: 'face' }),
        expect.objectContaining({ code: 'face_small', input: 'image' }),
      ]),
    );
  });

  it('leaves what stands in front of a face where it is', async () => {
    const engine = await rig.engine(models);
    const image = await behindBoard(rig.image);
    const { outputPath } = await rig.swap(engine, { inputs: { image, face: rig.face } });
    const [before, after] = [await rgb(image), await rgb(outputPath)];
    const at = (x: number, y: number) => (y * SIDE + x) * 3;
    const { left, top, width, height } = BOARD;
    let changed = 0;
    for (let y = top + 12; y < top + height - 12; y++)
      for (let x = left + 12; x < left + width - 12; x++)
        changed += Math.abs((after.data[at(x, y)] as number) - (before.data[at(x, y)] as number)) > 2 ? 1 : 0;
    expect(changed / ((width - 24) * (height - 24))).toBeLessThan(0.01);
    // Beside it the face is a new one.
    expect(after.data[at(256, 290)]).not.toBe(before.data[at(256, 290)]);
  });

  it('tells of something in front of the source', async () => {
    const engine = await rig.engine(models);
    const face = await behindBoard(rig.face);
    const code = models === BY_MODEL ? 'face_covered' : 'feature_kept';
    expect(await inspect(engine, { face, image: rig.image })).toMatchObject({
      hints: expect.arrayContaining([expect.objectContaining({ code })]),
    });
  });

  it('refuses a cat with what it found', async () => {
    const engine = await rig.engine(models);
    const refusal = {
      code: 'face_not_detected',
      findings: { faces: { found: 1, changed: 0, left: [{ reason: 'not_a_person', count: 1 }] } },
    };
    const inputs = { image: CAT, face: rig.face };
    await expect(rig.swap(engine, { inputs })).rejects.toMatchObject(refusal);
    await expect(inspect(engine, inputs)).rejects.toMatchObject(refusal);
  });
});

it('what builtin keeps of a face is told before as afterwards', async () => {
  const engine = await rig.engine(BY_MESH);
  const inputs = { image: await behindBoard(rig.image), face: rig.face };
  const { findings } = await rig.swap(engine, { inputs });
  expect(findings?.hints).toContainEqual(
    expect.objectContaining({ code: 'feature_kept', message: expect.stringContaining('mouth') }),
  );
  expect(await inspect(engine, inputs)).toEqual(withoutModels(findings));
});

it('a face that only the owner’s detector sees is covered where builtin has to draw it', async () => {
  const blank = sharp({ create: { width: SIDE, height: SIDE, channels: 3, background: '#4080c0' } });
  const image = await rig.file('plain.png', blank.png().toBuffer());
  const inputs = { image, face: rig.face };
  const mesh = await rig.engine([{ contract: 'yunet_2023_mar', bytes: tinyYunet([FACE]) }, ...BY_MESH]);
  await expect(inspect(mesh, inputs)).rejects.toMatchObject({
    findings: { faces: { found: 1, changed: 0, left: [{ reason: 'covered', count: 1 }] } },
  });
  const model = await rig.engine([{ contract: 'scrfd_2.5g', bytes: tinyAnchored([FACE]) }, ...BY_MODEL]);
  expect(await inspect(model, inputs)).toMatchObject({ faces: { found: 1, changed: 1, left: [] } });
});

it('an inspection of Video Swap looks at the face picture', { tags: ['ffmpeg'] }, async () => {
  const engine = await rig.engine(BY_MODEL);
  const face = await rig.file('small.png', sharp(rig.face).resize(120).png().toBuffer());
  expect(await inspect(engine, { face }, 'face-swap')).toMatchObject({
    hints: [{ code: 'face_small', input: 'face' }],
  });
  await expect(inspect(engine, { face: CAT }, 'face-swap')).rejects.toMatchObject({
    code: 'face_not_detected',
  });
});

it('an inspection ends with its signal', async () => {
  const engine = await rig.engine(BY_MODEL);
  const inputs = { image: rig.image, face: rig.face };
  const signal = AbortSignal.abort(new Error('gone'));
  await expect(
    engine.inspect?.({ capability: 'face-swap-image', inputs, parameters: {}, signal }),
  ).rejects.toThrow('gone');
});

it('names the converter of a swapper that is used, and not that of another one', async () => {
  const models: GivenModel[] = [
    { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
    { contract: 'ghost_1_256', bytes: tinySwapper({ size: 256 }), options: { min_face: 10_000 } },
    { contract: 'crossface_ghost', bytes: tinyConverter() },
    { contract: 'simswap_256', bytes: tinySwapper({ size: 256 }) },
    { contract: 'crossface_simswap', bytes: tinyConverter() },
  ];
  const engine = await rig.engine(models);
  const { findings, details } = await rig.swap(engine);
  expect(findings?.models?.map(({ name }) => name).sort()).toEqual([
    'arcface_w600k_r50',
    'crossface_simswap',
    'simswap_256',
  ]);
  expect(details).toMatchObject({ converter: 'onnx crossface_simswap', swapper: 'onnx simswap_256' });
});

it('tells by which models of the owner a swap was made, with their hashes and licences', async () => {
  const engine = await rig.engine(BY_MODEL);
  const { findings } = await rig.swap(engine, { inputs: { image: rig.image, face: rig.face } });
  expect(findings?.models?.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['arcface_w600k_r50', 'inswapper_128']),
  );
  for (const { sha256, licence } of findings?.models ?? [])
    expect([sha256, licence]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), 'made for a test']);
});
