/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RenderOptions } from '@semblance/engine-api/option';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, sidecar } from '../conformance/subject.ts';

/** Behaves as FaceFusion does on the command line. */
const PROGRAM = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/facefusion_program.py');
const START_MS = 300_000;
const idle = new AbortController().signal;
const run = promisify(execFile);

/** Writes settings for a folder of the program, and returns the command that starts the sidecar. */
async function command(folder: string, change: Record<string, unknown> = {}): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'mode'), 'ok');
  const swap = ['--processors', 'face_swapper', 'face_enhancer', '--face-swapper-model', 'hyperswap_1a_256'];
  const settings = {
    program: [await pythonEnv(), PROGRAM],
    folder: '.',
    devices: [0, 1],
    capabilities: {
      'face-swap-image': { memory_mib: 16, arguments: swap, options: OPTIONS },
      'face-swap': { memory_mib: 16, arguments: swap },
      'lip-sync': { memory_mib: 16 },
    },
    ...change,
  };
  await writeFile(join(folder, 'settings.yaml'), JSON.stringify(settings));
  const named = `SEMBLANCE_FACEFUSION_SETTINGS=${join(folder, 'settings.yaml')}`;
  return ['env', named, await pythonEnv(), '-m', 'semblance_sidecars.facefusion'];
}

const OPTIONS = {
  weight: {
    ...{ argument: '--face-swapper-weight', type: 'number', minimum: 0, maximum: 1, default: 0.5 },
    description: 'Whose identity.',
  },
  enhancer: {
    ...{ type: 'boolean', default: true, description: 'Whether faces are restored.' },
    words: {
      true: ['--processors', 'face_swapper', 'face_enhancer'],
      false: ['--processors', 'face_swapper'],
    },
  },
};

const called = async (folder: string): Promise<string[][]> =>
  (await readFile(join(folder, 'called'), 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe('the sidecar for FaceFusion', () => {
  let dir: string;
  let folder: string;
  let subject: Subject;
  let inputs: Record<string, string>;
  let opened = 0;

  async function open(change?: Record<string, unknown>): Promise<Subject> {
    const own = join(dir, `s${++opened}`);
    const start = sidecar(join(own, 'engine.sock'), await command(join(own, 'settings'), change));
    return start({ dir, signal: AbortSignal.timeout(60_000) });
  }

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-facefusion-'));
    await pythonEnv();
    inputs = { ...(await portraits(dir, 288)).inputs };
    subject = await open();
    folder = join(dir, 's1', 'settings');
  }, START_MS);
  afterAll(async () => {
    await subject?.close();
    await rm(dir, { recursive: true, force: true });
  });

  engineConformance({
    title: 'the sidecar for FaceFusion',
    works: [
      {
        capability: 'face-swap-image',
        samples: async (own) => ({ inputs: (await portraits(own, 288)).inputs, bad: [] }),
        cancelMs: 5_000,
      },
    ],
    async start(options) {
      const own = join(options.dir, 'shared');
      await mkdir(own);
      return sidecar(join(own, 'engine.sock'), await command(join(own, 'settings')))(options);
    },
  });

  async function render(
    mode: string,
    {
      signal = idle,
      options = {} as RenderOptions,
      onProgress = (_fraction: number, _stage: string) => {},
    } = {},
  ) {
    await writeFile(join(folder, 'mode'), mode);
    const outputDir = await mkdtemp(join(dir, 'out-'));
    const work = { capability: 'face-swap-image' as const, inputs, parameters: {}, options, outputDir };
    return subject.render(work, { signal, onProgress });
  }

  it('runs the program with the arguments of the owner, on the device of the worker', async () => {
    const stages: string[] = [];
    const rendered = await render('ok', { onProgress: (_fraction, stage) => stages.push(stage) });
    expect(rendered).toMatchObject({ contentType: 'image/png', units: { unit: 'image', quantity: 1 } });
    expect(stages).toEqual(expect.arrayContaining(['analysing', 'processing']));
    const words = (await called(folder)).at(-1) ?? [];
    expect(words.slice(0, 6)).toEqual([
      'headless-run',
      ...['--processors', 'face_swapper', 'face_enhancer', '--face-swapper-model', 'hyperswap_1a_256'],
    ]);
    expect(words[words.indexOf('--target-path') + 1]).toMatch(/\/work\/[0-9a-f-]+\/out\/work\/image\.png$/);
    expect(words[words.indexOf('--source-paths') + 1]).toMatch(/\/face\.(png|jpg)$/);
    await Promise.all([render('ok'), render('ok')]);
    const devices = (await called(folder)).map((each) => each[each.indexOf('--execution-device-ids') + 1]);
    expect(new Set(devices)).toEqual(new Set(['0', '1']));
  });

  it('announces the options of its settings, and says those of a render after the arguments', async () => {
    expect(subject.info.capabilities[0]?.options).toEqual([
      {
        ...{ name: 'weight', type: 'number', minimum: 0, maximum: 1, default: '0.5' },
        description: 'Whose identity.',
      },
      { name: 'enhancer', type: 'boolean', default: 'true', description: 'Whether faces are restored.' },
    ]);
    await render('ok', { options: { weight: 0.25, enhancer: false } });
    const words = (await called(folder)).at(-1) ?? [];
    const { length } = [
      'headless-run',
      '--processors',
      'face_swapper',
      'face_enhancer',
      '--face-swapper-model',
      'x',
    ];
    expect(words.slice(length, length + 3)).toEqual([
      '--face-swapper-weight=0.25',
      ...['--processors', 'face_swapper'],
    ]);
    await render('ok');
    expect((await called(folder)).at(-1)?.[length]).toBe('--source-paths');
  });

  it('renders a video as MP4, and takes no size that it would have to scale to', async () => {
    await writeFile(join(folder, 'mode'), 'ok');
    const [video, audio] = [join(dir, 'video'), join(dir, 'audio')];
    const picture = ['-f', 'lavfi', '-i', 'testsrc2=d=1.2:s=64x48:r=25'];
    await run('ffmpeg', ['-v', 'error', ...picture, '-pix_fmt', 'yuv420p', '-f', 'mp4', video]);
    await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'sine=d=1', '-f', 'ogg', audio]);
    const lips = async (parameters: Record<string, string>) => {
      const outputDir = await mkdtemp(join(dir, 'out-'));
      const work = { capability: 'lip-sync' as const, inputs: { video, audio }, parameters, outputDir };
      return subject.render(work, { signal: idle, onProgress: () => {} });
    };
    const expected = { contentType: 'video/mp4', units: { unit: 'second', quantity: 1.2 } };
    expect(await lips({})).toMatchObject(expected);
    expect(await lips({ output_resolution_p: '48' })).toMatchObject(expected);
    await expect(lips({ output_resolution_p: '720' })).rejects.toMatchObject({
      code: 'processing_failed',
      message: expect.stringContaining('leave output_resolution_p out'),
    });
  });

  it.each([
    ['memory', 'EngineInterruptedError', /Failed to allocate memory/],
    ['killed', 'EngineInterruptedError', /killed by signal 9/],
    ['fail', 'Error', /FaceFusion ended with 1: .*merging video failed/],
    ['nothing', 'Error', /FaceFusion ended with 0: /],
    ['no-face', 'RenderError', /No face was found in the face\./],
  ])('tells whose fault it is: %s', async (mode, name, message) => {
    const error = await render(mode).catch((reason: Error) => reason);
    expect(error).toMatchObject({ name, message: expect.stringMatching(message) });
  });

  it('knows the texts of faults that may be over at the next attempt', async () => {
    const momentary = [
      'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB',
      'torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory.',
      'RuntimeError: CUDA error: an illegal memory access was encountered',
      'RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED',
      'RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`',
      'CUDA failure 2: out of memory ; GPU=0',
      'BFCArena::AllocateRawInternal: Failed to allocate memory for requested buffer of size 4294967296',
      "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory",
      'OSError: [Errno 28] No space left on device',
    ];
    const final = ['RuntimeError: mat1 and mat2 shapes cannot be multiplied', 'ValueError: No face detected'];
    const print = 'import json, sys; from semblance_sidecars.momentary import MOMENTARY';
    const list = 'print(json.dumps([text for text in json.loads(sys.argv[1]) if MOMENTARY.search(text)]))';
    const texts = JSON.stringify([...momentary, ...final]);
    const { stdout } = await run(await pythonEnv(), ['-c', `${print}; ${list}`, texts]);
    expect(JSON.parse(stdout)).toEqual(momentary);
  });

  it('ends the program of a cancelled render, and what that started', async () => {
    const cancel = new AbortController();
    const onProgress = (_: number, stage: string) =>
      void (stage === 'processing' && cancel.abort(new Error('enough')));
    await expect(render('slow', { signal: cancel.signal, onProgress })).rejects.toThrow('enough');
    const child = Number(await readFile(join(folder, 'child'), 'utf8'));
    const stat = await readFile(`/proc/${child}/stat`, 'utf8').catch(() => undefined);
    expect(stat === undefined || /\) Z /.test(stat)).toBe(true);
    expect((await render('ok')).contentType).toBe('image/png');
  });

  const photo = (words: readonly unknown[]) => ({
    capabilities: { 'face-swap-image': { memory_mib: 1, arguments: words } },
  });

  it.each<[string, RegExp, Record<string, unknown>]>([
    ['a program that is no FaceFusion', /is no FaceFusion 3/, { program: ['echo', 'FooFusion'] }],
    [
      'an option that FaceFusion lacks',
      /this FaceFusion has no option --face-mixer/,
      photo(['--processors', 'face_swapper', '--face-mixer', 1]),
    ],
  ])('does not start with %s', async (_what, message, change) => {
    await expect(open(change)).rejects.toThrow(message);
  });

  const withOption = (option: unknown) => ({
    capabilities: { 'face-swap-image': { memory_mib: 1, options: { weight: option } } },
  });
  const { weight } = OPTIONS;

  it.each<[string, RegExp, Record<string, unknown>]>([
    [
      'an option without a type',
      /options\.weight\.type is missing/,
      withOption({ ...weight, type: undefined }),
    ],
    [
      'an option of an unknown type',
      /options\.weight\.type must be one of integer/,
      withOption({ ...weight, type: 'colour' }),
    ],
    [
      'a default out of bounds',
      /options\.weight: default is 2, which is no value of it/,
      withOption({ ...weight, default: 2 }),
    ],
    [
      'a minimum above the maximum',
      /options\.weight: minimum is 3, above maximum/,
      withOption({ ...weight, minimum: 3, default: undefined }),
    ],
    [
      'an option of the sidecar',
      /the sidecar itself says --output-path/,
      withOption({ ...weight, argument: '--output-path' }),
    ],
    [
      'an option that says nothing',
      /must have argument or words/,
      withOption({ ...weight, argument: undefined }),
    ],
    [
      'words for one value of two',
      /words must have words for each value/,
      withOption({ ...OPTIONS.enhancer, words: { true: ['-v'] } }),
    ],
    ['a folder that is not there', /there is no folder/, { folder: 'nowhere' }],
    [
      'an argument of the sidecar',
      /the sidecar itself says -o/,
      photo(['--processors', 'face_swapper', '-o', 'x']),
    ],
    ['another processor', /must have --processors with face_swapper/, photo(['--processors', 'lip_syncer'])],
    [
      'a capability that FaceFusion lacks',
      /FaceFusion has only/,
      { capabilities: { avatar: { memory_mib: 1 } } },
    ],
  ])('says in one line what is wrong with settings that have %s', async (_what, message, change) => {
    const [program = '', ...words] = await command(join(dir, `bad-${++opened}`), change);
    const error = await run(program, words).catch((reason: { stderr: string }) => reason);
    expect(error).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) });
    expect(error.stderr).toMatch(message);
  });
});
