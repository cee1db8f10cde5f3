import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  tinyArcface,
  tinyConverter,
  tinyEnhancer,
  tinySwapper,
  tinyXseg,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { tinyPiper } from '@semblance/testkit/engine-onnx/tiny-piper';
import { tinyTone } from '@semblance/testkit/engine-onnx/tiny-voices';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { runModels } from './cli.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

let downloads: string;
let dir: string;
let printed: string[];
beforeEach(async () => {
  downloads = await rig.directory();
  dir = join(await rig.directory(), 'models');
  printed = [];
});

const models = (...words: string[]): Promise<number> => {
  const say = (line: string): void => void printed.push(line);
  return runModels([...words, '--dir', dir], say, say);
};
const text = (): string => printed.join('\n');
const file = async (name: string, bytes: Uint8Array): Promise<string> => {
  await writeFile(join(downloads, name), bytes);
  return join(downloads, name);
};

describe('adding a model', () => {
  it('finds the contract by the tensors, copies the file and writes an entry that fits', async () => {
    const source = await file('w600k_r50.onnx', tinyArcface());
    expect(await models('add', source, '--licence', 'MIT')).toBe(0);
    expect(text()).toContain('added arcface_w600k_r50: arcface_w600k_r50, licence MIT');
    expect(await readdir(dir)).toEqual(['manifest.yaml', 'w600k_r50.onnx']);
    expect((await openModelDir(dir)).faults).toEqual([]);
  });

  it('tells contracts with the same tensors apart by the name of the file', async () => {
    await models('add', await file('arcface.onnx', tinyArcface()), '--licence', 'MIT');
    expect(
      await models('add', await file('GFPGANv1.4.onnx', tinyEnhancer(512, 1, 0)), '--licence', 'MIT'),
    ).toBe(0);
    expect(text()).toContain('added gfpgan_1.4: gfpgan_1.4');
    expect(await models('add', await file('mine.onnx', tinyConverter()), '--licence', 'MIT')).toBe(1);
    expect(text()).toMatch(/its tensors fit crossface_ghost, .*; say which with --contract/);
  });

  it('asks for the licence of a file that is not a public one, and names that of the public ones', async () => {
    const swapper = await file('inswapper_128.onnx', tinySwapper());
    expect(await models('add', swapper)).toBe(1);
    expect(text()).toContain('public files of this contract are under "InsightFace, non-commercial');
    expect(await readdir(dir)).toEqual([]);
  });

  it.each([
    ['a file that is not there', 'none.onnx', undefined, /there is no such file/],
    ['a file that is no model', 'text.onnx', Buffer.from('hello, I am no model'), /the file .*/],
    ['an empty file', 'empty.onnx', Buffer.alloc(0), /is no ONNX model/],
    ['a model of no contract', 'other.onnx', other(), /no contract fits its tensors: x float32 \[1, 7\]/],
  ])('refuses %s and changes nothing', async (_, name, bytes, message) => {
    if (bytes) await file(name, bytes);
    expect(await models('add', join(downloads, name), '--licence', 'MIT')).toBe(1);
    expect(text()).toMatch(message);
    expect(await readdir(dir).catch(() => [])).toEqual([]);
  });

  it('refuses the same file twice, the same name twice, and a file in its place', async () => {
    const source = await file('xseg_1.onnx', tinyXseg());
    expect(await models('add', source, '--licence', 'MIT')).toBe(0);
    expect(await models('add', source, '--licence', 'MIT')).toBe(1);
    expect(text()).toContain('it is there already as xseg_1');
    const arcface = await file('arcface.onnx', tinyArcface());
    expect(await models('add', arcface, '--licence', 'MIT', '--name', 'xseg_1')).toBe(1);
    expect(text()).toContain('there is a model xseg_1 already');
    await writeFile(join(dir, 'arcface.onnx'), 'another');
    expect(await models('add', arcface, '--licence', 'MIT')).toBe(1);
    expect(text()).toContain('arcface.onnx is there already');
    expect(await models('add', arcface, '--licence', 'MIT', '--name', 'a name')).toBe(1);
    expect(await readFile(join(dir, 'arcface.onnx'), 'utf8')).toBe('another');
  });

  it('keeps the comments of a YAML manifest, and the place of a file below the directory', async () => {
    await mkdir(join(dir, 'faces'), { recursive: true });
    await writeFile(join(dir, 'manifest.yaml'), '# mine\nversion: 1\nmodels: []\n');
    await writeFile(join(dir, 'faces/xseg_1.onnx'), tinyXseg());
    expect(await models('add', join(dir, 'faces/xseg_1.onnx'), '--licence', 'MIT')).toBe(0);
    const written = await readFile(join(dir, 'manifest.yaml'), 'utf8');
    expect(written).toMatch(/^# mine\n/);
    expect(written).toContain('file: faces/xseg_1.onnx');
  });

  it('writes options, and says which one is missing or wrong', async () => {
    const source = await file('mine.onnx', tinyEnhancer(512, 1, 0));
    const add = (...words: string[]) =>
      models('add', source, '--contract', 'gfpgan_1.4', '--licence', 'MIT', ...words);
    expect(await add('--option', 'blend=2')).toBe(1);
    expect(text()).toContain('--option blend=…');
    expect(await add('--option', 'blend')).toBe(2);
    expect(await add('--option', 'blend=0.5')).toBe(0);
    const [model] = (await openModelDir(dir)).models;
    expect(model?.options.blend).toBe(0.5);
  });
});

describe('adding a voice', () => {
  it('takes its index along, and says what does not fit', async () => {
    const { bytes = Buffer.alloc(0), options = {} } = tinyTone();
    const voice = await file('ada.onnx', bytes);
    const vector = new Array<number>(256).fill(0.5);
    const index = await file(
      'added.index',
      ivfFlatFile({ width: 256, centroids: [vector], lists: [[vector]] }),
    );
    const { sample_rate: rate } = options as { sample_rate: number };
    const add = (...words: string[]) =>
      models('add', voice, '--contract', 'rvc_v1', '--name', 'ada', '--licence', 'mine', ...words);
    expect(await add('--index', index)).toBe(1);
    expect(text()).toContain('it is a rvc_v1; --option sample_rate=…');
    expect(await add('--option', `sample_rate=${rate}`, '--index', join(downloads, 'none'))).toBe(1);
    expect(await add('--option', `sample_rate=${rate}`, '--index', index)).toBe(0);
    expect(text()).toContain('note: ada (ada.onnx): rvc_v1 needs a contentvec_256');
    const [model] = (await openModelDir(dir)).models;
    expect(model?.index).toMatchObject({ file: 'added.index', count: 1 });
  });

  it('finds a voice of Piper by its graph, and takes the file beside it along with its hash', async () => {
    const { bytes = Buffer.alloc(0), beside } = tinyPiper();
    const voice = await file('joe.onnx', bytes);
    await file('joe.onnx.json', Buffer.from(JSON.stringify(beside)));
    expect(await models('add', voice, '--licence', 'CC0', '--name', 'joe')).toBe(0);
    expect(text()).toContain('added joe: piper, licence CC0');
    expect((await openModelDir(dir)).faults).toEqual([]);
    await writeFile(join(dir, 'joe.onnx.json'), '{}');
    expect((await openModelDir(dir)).faults).toEqual([
      expect.stringMatching(/^joe \(joe\.onnx\): beside joe\.onnx\.json: sha256: expected/),
    ]);
  });
});

describe('a licence that forbids commercial use', () => {
  it('keeps the models back until somebody accepts it', async () => {
    const source = await file('xseg_1.onnx', tinyXseg());
    expect(await models('add', source, '--licence', 'CC BY-NC 4.0')).toBe(0);
    expect(text()).toContain('the engine does not start with it yet');
    expect((await openModelDir(dir)).faults).toEqual([
      expect.stringMatching(/^xseg_1 \(xseg_1\.onnx\): licence: "CC BY-NC 4\.0" forbids commercial use/),
    ]);
    expect(await models('list')).toBe(0);
    expect(text()).toMatch(/xseg_1 +occlusion +xseg_1 +LICENCE +[0-9a-f]{12} +CC BY-NC 4\.0/);
    expect(await models('accept', 'xseg_1')).toBe(2);
    expect(await models('accept', 'xseg_1', '--by', 'Ada, non-profit')).toBe(0);
    const { models: fitting, faults } = await openModelDir(dir);
    expect(faults).toEqual([]);
    expect(fitting[0]?.licence).toBe('CC BY-NC 4.0');
  });

  it('is accepted with the file, by words or against them', async () => {
    const xseg = await file('xseg_1.onnx', tinyXseg());
    expect(await models('add', xseg, '--licence', 'non-commercial', '--by', 'Ada')).toBe(0);
    expect((await openModelDir(dir)).faults).toEqual([]);
    const entries = await readFile(join(dir, 'manifest.yaml'), 'utf8');
    await writeFile(join(dir, 'manifest.yaml'), entries.replace(/.*accepted_by.*\n/, ''));
    expect((await openModelDir(dir)).faults).toHaveLength(1);
    const bought = entries
      .replace(/.*accepted_by.*\n/, '')
      .replace('non_commercial: true', 'non_commercial: false');
    await writeFile(join(dir, 'manifest.yaml'), bought);
    expect((await openModelDir(dir)).faults).toEqual([]);
  });
});

describe('checking and removing', () => {
  it('says what is offered, missing and would be better', async () => {
    await models('add', await file('arcface.onnx', tinyArcface()), '--licence', 'MIT');
    await models('add', await file('inswapper_128.onnx', tinySwapper()), '--licence', 'MIT');
    printed = [];
    expect(await models('check')).toBe(0);
    expect(text()).toContain('offers    Photo Swap with inswapper_128.');
    expect(text()).toContain('offers    Video Swap with inswapper_128, where ffmpeg is installed.');
    expect(text()).toContain('offers    Live Swap Pro with inswapper_128.');
    expect(text()).toContain('missing   Lip Sync is left to builtin; it needs wav2lip_gan_96');
    expect(text()).toMatch(/better {4}Faces whose eyes are more than 35 pixels apart come out soft/);
  });

  it('says who needs a model that is removed, and deletes its file only when it is told to', async () => {
    await models('add', await file('arcface.onnx', tinyArcface()), '--licence', 'MIT');
    await models('add', await file('inswapper_128.onnx', tinySwapper()), '--licence', 'MIT');
    expect(await models('remove', 'nobody')).toBe(1);
    expect(text()).toContain('there is no model nobody; there are: arcface_w600k_r50, inswapper_128');
    expect(await models('remove', 'arcface_w600k_r50')).toBe(0);
    expect(text()).toContain(
      'note: inswapper_128 (inswapper_128.onnx): inswapper_128 needs a arcface_w600k_r50',
    );
    expect(await readdir(dir)).toContain('arcface.onnx');
    expect(await models('remove', 'inswapper_128', '--delete-files')).toBe(0);
    expect(await readdir(dir)).toEqual(['arcface.onnx']);
    expect(await models('list')).toBe(0);
    expect(text()).toContain('has no models');
  });
});

describe('the command line', () => {
  it.each([
    [[], 2],
    [['--help'], 0],
    [['burn'], 2],
    [['add'], 2],
    [['list', 'a'], 2],
    [['check', 'cpu', 'cuda'], 2],
    [['list', '--by', 'me'], 2],
    [['list', '--colour'], 2],
    [['add', 'a', 'b', '--name', 'c'], 2],
  ] as const)('%j ends with %i', async (words, status) => {
    expect(await models(...words)).toBe(status);
    expect(text()).toContain('usage: npm run');
  });
});

/** A model that fits no contract. */
function other(): Uint8Array {
  const graph = new GraphBuilder();
  graph.output(graph.op('Relu', [graph.input('x', [1, 7])]), 'y', [1, 7]);
  return graph.build();
}
