import { rename, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyAnchored, tinyYunet } from '@semblance/testkit/engine-onnx/tiny-detectors';
import { tinyLivePortrait, tinyMotion } from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import {
  tinyArcface,
  tinyConverter,
  tinyEnhancer,
  tinySwapper,
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

describe('of models that do not fit is named', () => {
  it.each<[string, GivenModel[], (string | RegExp)[]]>([
    [
      'a wrong name',
      [arcface, { ...swapper, bytes: tinySwapper({ names: { target: 'face', source: 'source' } }) }],
      [
        'inswapper_128 (inswapper_128.onnx): input "target": expected float32 or float16 [1 or open, 3, 128, 128], found "face" float32 [1, 3, 128, 128]; "source" float32 [1, 512]',
        'inswapper_128 (inswapper_128.onnx): input "face": expected no such input, found float32 [1, 3, 128, 128]',
      ],
    ],
    [
      'a wrong shape',
      [arcface, { contract: 'hyperswap_1a_256', bytes: tinySwapper({ size: 128 }) }],
      [
        'hyperswap_1a_256 (hyperswap_1a_256.onnx): input "target": expected float32 or float16 [1 or open, 3, 256, 256], found float32 [1, 3, 128, 128]',
        'hyperswap_1a_256 (hyperswap_1a_256.onnx): output "output": expected float32 or float16 [1 or open, 3, 256, 256], found float32 [1, 3, 128, 128]',
      ],
    ],
    [
      'a missing emap',
      [arcface, { ...swapper, bytes: tinySwapper({ emap: false }) }],
      [
        /^inswapper_128 \(inswapper_128\.onnx\): initializer "weight_\d+": expected emap, float32 or float16 \[512, 512\], as the last one of the graph, found float32 \[\]$/,
      ],
    ],
    ...(['float32', 'float16'] as const).map((type): [string, GivenModel[], string[]] => {
      const [Values, bytes] = type === 'float32' ? [Float32Array, 4] : [Float16Array, 2];
      const graph = new GraphBuilder();
      const target = graph.input('target', [1, 3, 128, 128]);
      graph.input('source', [1, 512]);
      graph.output(target, 'output', [1, 3, 128, 128]);
      graph.tensor({ name: 'emap', dims: [512, 512], data: new Values(512 * 511) });
      return [
        `an emap of ${type} that lacks a row`,
        [arcface, { ...swapper, bytes: graph.build() }],
        [
          `inswapper_128 (inswapper_128.onnx): initializer "emap": expected emap, float32 or float16 [512, 512], as the last one of the graph, found ${type} [512, 512] with ${512 * 511 * bytes} bytes of data, not ${512 * 512 * bytes}`,
        ],
      ];
    }),
    [
      'a wrong hash',
      [arcface, { ...swapper, sha256: 'ab'.repeat(32) }],
      [/^inswapper_128 .*sha256: expected abab.*, found [0-9a-f]{64}$/],
    ],
    [
      'two models for a stage',
      [
        { contract: 'scrfd_2.5g', bytes: tinyAnchored([], { size: 640 }) },
        { contract: 'yunet_2023_mar', name: 'other', bytes: tinyYunet([]) },
      ],
      [
        'detector: scrfd_2.5g (scrfd_2.5g) and other (yunet_2023_mar) would both do this stage; keep one of them',
      ],
    ],
    [
      'an unknown contract',
      [{ contract: 'magic_1', bytes: tinyConverter() }],
      [
        /^magic_1 \(magic_1\.onnx\): there is no contract magic_1; there are scrfd_2\.5g, .*live_portrait_lip_retargeter, rvc_v1, .*rmvpe, fcpe, piper, kokoro, det_10g, det_500m$/,
      ],
    ],
    ['an unknown option', [{ ...arcface, options: { speed: 2 } }], [/options.*: Unrecognized key: "speed"/]],
    [
      'an option out of range',
      [{ contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 1, 0), options: { blend: 7 } }],
      [/^gfpgan_1\.4 .*options\.blend: /],
    ],
    [
      'a missing file',
      [{ contract: 'xseg_1', sha256: '0'.repeat(64) }],
      ['xseg_1 (xseg_1.onnx): there is no such file'],
    ],
    [
      'something else than a model',
      [{ contract: 'xseg_1', bytes: Buffer.from('<html>404 Not Found</html>') }],
      [/^xseg_1 \(xseg_1\.onnx\): the file is no ONNX model/],
    ],
    [
      'a LivePortrait of another make',
      [
        ...tinyLivePortrait().filter(({ contract }) => !/motion|stitcher/.test(contract)),
        { contract: 'live_portrait_motion_extractor', bytes: tinyMotion(1, [1, 1, 1]) },
        { contract: 'live_portrait_stitcher', bytes: tinyConverter() },
      ],
      [
        ...['pitch', 'yaw', 'roll'].map(
          (name) =>
            `live_portrait_motion_extractor (live_portrait_motion_extractor.onnx): output "${name}": expected float32 or float16 [1 or open, 1] or [1 or open] or [], found float32 [1, 1, 1]`,
        ),
        ...['source', 'target'].map(
          (name) =>
            `live_portrait_stitcher (live_portrait_stitcher.onnx): input "${name}": expected float32 or float16 [1 or open, 21, 3], found "input" float32 [1, 512]`,
        ),
        'live_portrait_stitcher (live_portrait_stitcher.onnx): output "output": expected float32 or float16 [1 or open, 21, 3], found float32 [1, 512]',
        'live_portrait_stitcher (live_portrait_stitcher.onnx): input "input": expected no such input, found float32 [1, 512]',
      ],
    ],
    [
      'a swapper without a recogniser',
      [swapper],
      [
        'inswapper_128 (inswapper_128.onnx): inswapper_128 needs a arcface_w600k_r50, and the manifest has none',
      ],
    ],
  ])('%s', async (_, models, expected) => {
    const found = await faults(models);
    expect(found).toHaveLength(expected.length);
    for (const [i, wanted] of expected.entries()) {
      if (typeof wanted === 'string') expect(found[i]).toBe(wanted);
      else expect(found[i]).toMatch(wanted);
    }
  });

  it('a file that was cut off after its hash was noted', async () => {
    const bytes = tinyArcface();
    const cut = bytes.subarray(0, bytes.length - 200);
    const [fault] = await faults([{ contract: 'arcface_w600k_r50', bytes: cut }]);
    expect(fault).toMatch(
      /^arcface_w600k_r50 \(arcface_w600k_r50\.onnx\): the file is cut off or damaged: \d+ bytes of the model are missing$/,
    );
    const directory = await rig.make([arcface]);
    await truncate(join(directory, 'arcface_w600k_r50.onnx'), 500);
    expect((await openModelDir(directory)).faults[0]).toMatch(/sha256: expected/);
  });

  it('data in another file', async () => {
    const graph = new GraphBuilder();
    const input = graph.input('input', ['n', 512]);
    const weight = graph.tensor({ name: 'w', dims: [1], data: new Float32Array(1), location: 'w.data' });
    graph.output(graph.op('Mul', [input, weight]), 'output', ['n', 512]);
    const found = await faults([arcface, { contract: 'crossface_ghost', bytes: graph.build() }]);
    expect(found).toEqual([expect.stringMatching(/initializer w: its data lie in another file/)]);
  });

  it('a link that leaves the directory', async () => {
    const elsewhere = join(await rig.directory(), 'secret.onnx');
    await writeFile(elsewhere, arcface.bytes ?? '');
    const directory = await rig.make([{ ...arcface, file: 'inner.onnx' }]);
    await rename(join(directory, 'inner.onnx'), join(directory, 'was.onnx'));
    await symlink(elsewhere, join(directory, 'inner.onnx'));
    expect((await openModelDir(directory)).faults).toEqual([
      expect.stringMatching(
        /^arcface_w600k_r50 \(inner\.onnx\): is a link that leaves the model directory, to /,
      ),
    ]);
  });

  it.each([
    ['../secret.onnx', /models\[0\] \(arcface_w600k_r50\), file: must not leave the model directory/],
    ['a/../../b.onnx', /file: must not leave/],
    ['/etc/passwd', /file: must be a path below/],
    ['C:\\models\\x.onnx', /file: must be a path below/],
  ])('a path such as %s', async (path, message) => {
    const directory = await rig.make([arcface]);
    const text = JSON.stringify({
      version: 1,
      models: [
        {
          name: arcface.contract,
          contract: arcface.contract,
          file: path,
          sha256: '0'.repeat(64),
          licence: 'x',
        },
      ],
    });
    await writeFile(join(directory, 'manifest.json'), text);
    expect((await openModelDir(directory)).faults).toEqual([expect.stringMatching(message)]);
  });
});
