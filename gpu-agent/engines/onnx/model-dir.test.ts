import { execFile } from 'node:child_process';
import { mkdir, rename, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { checkDirectory } from './check.ts';
import { openModelDir } from './model-dir.ts';
import { GraphBuilder } from './testing/graph.ts';
import { type GivenModel, ModelDirRig } from './testing/model-dir-rig.ts';
import { tinyAnchored, tinyYoloface, tinyYunet } from './testing/tiny-detectors.ts';
import {
  tiny2dfan4,
  tinyArcface,
  tinyBisenet,
  tinyConverter,
  tinyEnhancer,
  tinySwapper,
  tinyWav2lip,
  tinyXseg,
} from './testing/tiny-models.ts';

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
      { role: 'input', name: 'input.1', type: 'float32', dims: [1, 3, 112, 112], batch: true },
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

  it('takes the parts of LivePortrait', async () => {
    const part = (inputs: [string, number[]][], outputs: number[][]): Uint8Array => {
      const graph = new GraphBuilder();
      for (const [name, dims] of inputs) graph.input(name, dims);
      for (const [i, dims] of outputs.entries()) {
        const count = dims.reduce((product, dim) => product * dim, 1);
        const value = graph.op('Expand', [graph.weight([0], []), graph.integers(dims)]);
        expect(count).toBeGreaterThan(0);
        graph.output(value, `output_${i}`, dims);
      }
      return graph.build();
    };
    const volume = [1, 32, 16, 64, 64];
    const points = [1, 21, 3];
    const face: [string, number[]][] = [['input', [1, 3, 256, 256]]];
    const models: [string, Uint8Array][] = [
      ['live_portrait_feature_extractor', part(face, [volume])],
      [
        'live_portrait_motion_extractor',
        part(face, [[1, 1], [1, 1], [1, 1], [1, 1], [1, 3], points, points]),
      ],
      [
        'live_portrait_generator',
        part(
          [
            ['feature_volume', volume],
            ['source', points],
            ['target', points],
          ],
          [[1, 3, 512, 512]],
        ),
      ],
      [
        'live_portrait_stitcher',
        part(
          [
            ['source', points],
            ['target', points],
          ],
          [points],
        ),
      ],
      ['live_portrait_eye_retargeter', part([['input', [1, 66]]], [[1, 63]])],
      ['live_portrait_lip_retargeter', part([['input', [1, 65]]], [[1, 63]])],
    ];
    expect(await faults(models.map(([contract, bytes]) => ({ contract, bytes })))).toEqual([]);
  });

  it('follows a link that stays inside the directory', async () => {
    const directory = await rig.make([arcface, swapper]);
    await mkdir(join(directory, 'store'));
    await rename(join(directory, 'inswapper_128.onnx'), join(directory, 'store', 'blob'));
    await symlink(join('store', 'blob'), join(directory, 'inswapper_128.onnx'));
    expect((await openModelDir(directory)).faults).toEqual([]);
  });
});

describe('what does not fit is named', () => {
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
        /^magic_1 \(magic_1\.onnx\): there is no contract magic_1; there are scrfd_2\.5g, .*live_portrait_lip_retargeter$/,
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

describe('the manifest', () => {
  const write = async (name: string, text: string): Promise<readonly string[]> => {
    const directory = await rig.directory();
    await writeFile(join(directory, name), text);
    return (await openModelDir(directory)).faults;
  };

  it('may be YAML', async () => {
    const directory = await rig.make([arcface]);
    const { readFile, rm } = await import('node:fs/promises');
    const { stringify } = await import('yaml');
    const json = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8'));
    await writeFile(join(directory, 'manifest.yaml'), `# mine\n${stringify(json)}`);
    expect((await openModelDir(directory)).faults).toEqual([
      expect.stringMatching(/has manifest\.yaml and manifest\.json; keep one/),
    ]);
    await rm(join(directory, 'manifest.json'));
    const { models, faults } = await openModelDir(directory);
    expect(faults).toEqual([]);
    expect(models[0]?.licence).toBe('made for a test');
  });

  it.each([
    ['manifest.json', '{', /manifest\.json: cannot be read: /],
    ['manifest.yaml', 'models: [', /manifest\.yaml: cannot be read: /],
    ['manifest.json', '{"version":2,"models":[]}', /version: /],
    [
      'manifest.json',
      '{"version":1,"models":[{"name":"a b"}]}',
      /models\[0\] \(a b\), name: must be letters/,
    ],
    ['manifest.json', '{"version":1,"models":[{"name":"a"}]}', /models\[0\] \(a\), file: /],
    ['other.json', '{}', /has no manifest/],
  ])('%s %s is refused with its fault', async (name, text, message) => {
    expect(await write(name, text)).toEqual(expect.arrayContaining([expect.stringMatching(message)]));
  });

  it('asks for a licence and for names that differ', async () => {
    const entry = { name: 'a', file: 'a.onnx', sha256: '0'.repeat(64), licence: ' ', contract: 'xseg_1' };
    const found = await write(
      'manifest.json',
      JSON.stringify({ version: 1, models: [entry, { ...entry, licence: 'MIT' }] }),
    );
    expect(found).toEqual([
      'manifest.json: models[0] (a), licence: must say under which licence the weights are used',
      'manifest.json: models[1] (a), name: a is there twice',
    ]);
  });

  it('may be missing together with its directory', async () => {
    expect((await openModelDir('/no/such/directory')).faults).toEqual([
      expect.stringMatching(/^\/no\/such\/directory: cannot be read: /),
    ]);
  });
});

describe('the check', () => {
  it('prints what fits, what does not and what is ignored', async () => {
    const directory = await rig.make([arcface, { ...swapper, sha256: 'ab'.repeat(32) }]);
    await writeFile(join(directory, 'stray.onnx'), 'x');
    const { text, fits } = await checkDirectory(directory);
    expect(fits).toBe(false);
    const lines = text.split('\n');
    expect(lines[0]).toBe(
      'fits      arcface_w600k_r50: recogniser, arcface_w600k_r50, takes batches (arcface_w600k_r50.onnx)',
    );
    expect(lines[1]).toBe('          licence: made for a test');
    expect(lines[2]).toMatch(/^DOES NOT {2}inswapper_128 \(inswapper_128\.onnx\): sha256: expected abab/);
    expect(lines[3]).toBe('ignored   stray.onnx: the manifest does not name it');
  });

  it('runs what fits when it is given providers', async () => {
    const good = await checkDirectory(await rig.make([arcface, swapper]), 'cuda,cpu');
    expect(good.fits).toBe(true);
    expect(good.text).toContain('runs      inswapper_128 on cpu\n');
    expect(good.text).toMatch(/^note {6}the execution provider cuda is not available: /m);
    const graph = new GraphBuilder();
    const input = graph.input('input', [1, 3, 512, 512]);
    graph.output(graph.op('NoSuchOperation', [input]), 'output', [1, 3, 512, 512]);
    const bad = await checkDirectory(
      await rig.make([{ contract: 'gfpgan_1.4', bytes: graph.build() }]),
      'cpu',
    );
    expect(bad.fits).toBe(false);
    expect(bad.text).toMatch(/^DOES NOT {2}gfpgan_1\.4 cannot be loaded \(cpu\): /m);
  });

  it('is a program whose status tells', async () => {
    const run = (args: string[]) =>
      promisify(execFile)(process.execPath, [join(import.meta.dirname, 'check.ts'), ...args]);
    const good = await run([await rig.make([arcface, swapper])]);
    expect(good.stdout).toContain('fits      inswapper_128: swapper');
    await expect(run([await rig.make([swapper])])).rejects.toMatchObject({ code: 1 });
    await expect(run([])).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('usage') });
  });
});
