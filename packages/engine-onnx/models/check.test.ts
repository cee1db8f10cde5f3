import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyArcface, tinyDfm, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { tinyContentvec, tinyTone } from '@semblance/testkit/engine-onnx/tiny-voices';
import { afterAll, describe, expect, it } from 'vitest';
import { checkDirectory } from './check.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const swapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper() };

describe('the check of a model directory', () => {
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

  it('prints the index of a voice', async () => {
    const vector = new Array<number>(256).fill(0.5);
    const index = { bytes: ivfFlatFile({ width: 256, centroids: [vector], lists: [[vector, vector]] }) };
    const { text, fits } = await checkDirectory(await rig.make([tinyContentvec(), { ...tinyTone(), index }]));
    expect(fits).toBe(true);
    expect(text).toContain('          index: 2 features (my-voice.index)\n');
  });

  it('says of a swapper that it has an identity of its own', async () => {
    const { text, fits } = await checkDirectory(
      await rig.make([{ contract: 'dfm', name: 'someone', bytes: tinyDfm(64, true) }]),
      'cpu',
    );
    expect(fits).toBe(true);
    expect(text).toMatch(/^fits {6}someone: swapper, dfm \(someone\.onnx\)$/m);
    expect(text).toMatch(
      /^ +gives every face the identity that it was trained on, not that of the job’s face$/m,
    );
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

  it('says of a model that its file leaves the batch open though it takes none', async () => {
    const graph = new GraphBuilder();
    const input = graph.input('input', ['n', 3, 512, 512]);
    const fixed = graph.op('Reshape', [input, graph.integers([1, 3, 512, 512])]);
    graph.output(fixed, 'output', ['n', 3, 512, 512]);
    const directory = await rig.make([{ contract: 'gfpgan_1.4', bytes: graph.build() }, arcface]);
    const { text, fits } = await checkDirectory(directory, 'cpu');
    expect(fits).toBe(true);
    expect(text).toContain('fits      gfpgan_1.4: enhancer, gfpgan_1.4 (gfpgan_1.4.onnx)\n');
    expect(text).toMatch(/^note {6}gfpgan_1\.4 is given one item at a time: /m);
    expect(text).toContain('arcface_w600k_r50, takes batches (');
  });

  it('lists what a render may be told, and what is wrong with the options of the owner', async () => {
    const directory = await rig.make([arcface, swapper]);
    const good = await checkDirectory(directory, undefined, {
      'face-swap': { set: { weight: '0.25' }, callers: ['match'] },
      // The models offer no such capability; another engine may.
      avatar: { set: { speed: '2' }, callers: [] },
    });
    expect(good.fits).toBe(true);
    expect(good.text).toContain(
      'options   Photo Swap: weight (a number from 0 to 1), match (a number from 0 to 1).\n',
    );
    const owner = { 'face-swap': { set: {}, callers: ['enhancer'] } };
    const { text, fits } = await checkDirectory(directory, undefined, owner);
    expect(fits).toBe(false);
    expect(text).toContain(
      'DOES NOT  SEMBLANCE_ENGINE_OPTIONS, face-swap: the engine onnx has no option enhancer for this capability: it has weight (a number from 0 to 1), match (a number from 0 to 1).\n',
    );
  });

  it('is a program whose status tells', async () => {
    const run = (args: string[]) =>
      promisify(execFile)(process.execPath, [join(import.meta.dirname, 'main.ts'), ...args]);
    const good = await run(['check', '--dir', await rig.make([arcface, swapper])]);
    expect(good.stdout).toContain('fits      inswapper_128: swapper');
    await expect(run(['check', '--dir', await rig.make([swapper])])).rejects.toMatchObject({ code: 1 });
    await expect(run([])).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('usage') });
  });
});
