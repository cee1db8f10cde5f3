import { mkdir, rename, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyAnchored, tinyYoloface, tinyYunet } from '@semblance/testkit/engine-onnx/tiny-detectors';
import { tinyLivePortrait, tinyRetargeters } from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import {
  tiny2dfan4,
  tinyArcface,
  tinyBisenet,
  tinyConverter,
  tinyEnhancer,
  tinySwapper,
  tinyWav2lip,
  tinyXseg,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, describe, expect, it } from 'vitest';
import { openModelDir } from './model-dir.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const swapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper() };

async function faults(models: readonly GivenModel[]): Promise<readonly string[]> {
  return (await openModelDir(await rig.make(models))).faults;
}

describe('models that fit', () => {
  it('binds every tensor by name or place', async () => {
    const { models, faults } = await openModelDir(await rig.make([arcface, swapper]));
    expect(faults).toEqual([]);
    const [first, second] = models;
    expect(first?.inputs).toEqual([
      { role: 'input', name: 'input.1', type: 'float32', dims: [1, 3, 112, 112], first: 0, batch: true },
    ]);
    expect(first?.batch).toBe(true);
    expect(second?.inputs.map(({ name }) => name)).toEqual(['target', 'source']);
    expect(second?.batch).toBe(false);
  });

  it.each([
    ['scrfd_2.5g', tinyAnchored([], { size: 640 })],
    ['retinaface_10g', tinyAnchored([], { size: 320, batch: true, input: [1, 3, 320, 320] })],
    ['yoloface_8n', tinyYoloface([], 256)],
    ['yunet_2023_mar', tinyYunet([], 160)],
    [
      '2dfan4',
      tiny2dfan4(
        Array.from({ length: 68 }, () => [32, 32] as const),
        1,
      ),
    ],
    ['gfpgan_1.4', tinyEnhancer(512, 1, 0)],
    ['codeformer', tinyEnhancer(512, 1, 0, true)],
    ['gpen_bfr_256', tinyEnhancer(256, 1, 0)],
    ['restoreformer_plus_plus', tinyEnhancer(512, 1, 0)],
    ['xseg_1', tinyXseg()],
    ['bisenet_resnet_34', tinyBisenet()],
    ['wav2lip_gan_96', tinyWav2lip()],
  ])('takes a %s', async (contract, bytes) => {
    expect(await faults([{ contract, bytes }])).toEqual([]);
  });

  it.each([
    ['hyperswap_1b_256', 256, []],
    ['inswapper_128_fp16', 128, []],
    ['ghost_2_256', 256, ['crossface_ghost']],
    ['hififace_unofficial_256', 256, ['crossface_hififace']],
    ['simswap_unofficial_512', 512, ['crossface_simswap']],
  ])('takes a %s with what it needs', async (contract, size, converters) => {
    const type = contract.endsWith('fp16') ? ('float16' as const) : ('float32' as const);
    const models = [
      arcface,
      { contract, bytes: tinySwapper({ size, type }) },
      ...converters.map((name) => ({ contract: name, bytes: tinyConverter() })),
    ];
    expect(await faults(models)).toEqual([]);
    const alone = models.filter(
      ({ contract: name }) => !name.startsWith('crossface') && name !== arcface.contract,
    );
    expect((await faults(alone)).length).toBe(1 + converters.length);
  });

  it.each([
    ['as FaceFusion exports them', tinyLivePortrait()],
    ['with a batch', tinyLivePortrait('batch_size')],
    ['with their retargeters', [...tinyLivePortrait(), ...tinyRetargeters(0.3)]],
  ])('takes the parts of LivePortrait %s', async (_, models) => {
    expect(await faults(models)).toEqual([]);
  });

  it('wants all parts of LivePortrait that are needed', async () => {
    const [features, motion, generator] = tinyLivePortrait();
    const [eyes] = tinyRetargeters();
    if (!features || !motion || !generator || !eyes) throw new Error('four parts');
    expect(await faults([features, motion, generator])).toEqual(
      [features, motion, generator].map(
        ({ contract }) =>
          `${contract} (${contract}.onnx): ${contract} needs a live_portrait_stitcher, and the manifest has none`,
      ),
    );
    expect(await faults([eyes])).toHaveLength(4);
  });

  it('follows a link that stays inside the directory', async () => {
    const directory = await rig.make([arcface, swapper]);
    await mkdir(join(directory, 'store'));
    await rename(join(directory, 'inswapper_128.onnx'), join(directory, 'store', 'blob'));
    await symlink(join('store', 'blob'), join(directory, 'inswapper_128.onnx'));
    expect((await openModelDir(directory)).faults).toEqual([]);
  });
});
