/**
 * @module-tag python
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CONTRACTS } from '@semblance/engine-onnx/internal/contracts/catalog';
import type { Contract } from '@semblance/engine-onnx/internal/contracts/contract';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FACE } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyAnchored } from '@semblance/testkit/engine-onnx/tiny-detectors';
import {
  tinyArcface,
  tinyEdtalk,
  tinyEnhancer,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { ortCommand } from '@semblance/testkit/engine-sidecar/ort';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sidecar } from '../conformance/subject.ts';

const START_MS = 300_000;
const run = promisify(execFile);
const rig = new ModelDirRig();

const detector: GivenModel = { contract: 'scrfd_2.5g', bytes: tinyAnchored([FACE]) };
const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const inswapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper() };
const three = [detector, arcface, inswapper];

describe('the sidecar ort, when it starts', () => {
  let dir: string;
  let opened = 0;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-ort-'));
    await pythonEnv();
  }, START_MS);
  afterAll(async () => {
    await rig.close();
    await rm(dir, { recursive: true, force: true });
  });

  const settings = async (models: readonly GivenModel[], change?: Record<string, unknown>) =>
    ortCommand(join(dir, `s${++opened}`), await rig.make(models), change);

  /** Starts the program, and returns the error of its engine; undefined: it is warm. */
  async function trouble(models: readonly GivenModel[], change?: Record<string, unknown>) {
    const words = await settings(models, change);
    const socketDir = join(dir, `socket${opened}`);
    await mkdir(socketDir);
    const start = sidecar(join(socketDir, 'engine.sock'), words);
    try {
      await (await start({ dir, signal: AbortSignal.timeout(60_000) })).close();
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** Runs Python over settings, and returns what it prints as JSON. */
  async function python(script: string, words: readonly string[] = []): Promise<unknown> {
    const [, named = ''] = words;
    const [name = '', value = ''] = named.split('=');
    const env = { ...process.env, ...(name && { [name]: value }) };
    return JSON.parse((await run(await pythonEnv(), ['-c', script], { env })).stdout);
  }

  it('knows the contracts as the engine onnx does', async () => {
    const fields =
      '[c.stage, c.size, c.template, c.mean, c.deviation, c.denormalise, c.order, c.identity, c.source, list(c.needs), {k: o.default for k, o in c.options.items()}]';
    const known = await python(
      `import json; from semblance_sidecars.ort.contracts import CONTRACTS, OTHERS; print(json.dumps([{n: ${fields} for n, c in CONTRACTS.items()}, OTHERS]))`,
    );
    const [run = {}, others = {}] = known as [Record<string, unknown>, Record<string, string>];
    const facts = ({ stage, traits, needs = [], options }: Contract) => {
      const { mean = [0, 0, 0], deviation = [1, 1, 1], denormalise = false, order = 'rgb' } = traits;
      const { size = null, template = null, identity = null, source } = traits;
      const from = source ? [source.size, source.template] : null;
      // A converter is of use to the swappers that need it, and names the recogniser itself.
      const defaults: Record<string, unknown> = { ...options.parse({}) };
      if (stage === 'detector') defaults.size = null;
      return [stage, size, template, mean, deviation, denormalise, order, identity, from, needs, defaults];
    };
    const ofOnnx = [...CONTRACTS].filter(([name]) => !Object.hasOwn(others, name));
    expect(run).toEqual(Object.fromEntries(ofOnnx.map(([name, contract]) => [name, facts(contract)])));
    const rest = [...CONTRACTS].filter(([name]) => Object.hasOwn(others, name));
    expect(others).toEqual(Object.fromEntries(rest.map(([name, { stage }]) => [name, stage])));
    expect(ofOnnx.length + Object.keys(others).length).toBe(CONTRACTS.size);
  });

  it('passes the options of providers, of sessions and of runs to onnxruntime', async () => {
    const cache = join(dir, 'cache');
    await mkdir(cache);
    const words = await settings(three, {
      devices: [2],
      providers: {
        tensorrt: { trt_engine_cache_path: cache, trt_fp16_enable: true, trt_max_workspace_size: '2GiB' },
        cuda: { gpu_mem_limit: '6GiB', arena_extend_strategy: 'kSameAsRequested', use_tf32: false },
        cpu: {},
      },
    });
    const script = `import json
from semblance_sidecars.ort.settings import read_settings
from semblance_sidecars.ort.providers import passed
from semblance_sidecars.ort.opening import shrunk
settings = read_settings().running
print(json.dumps([passed(settings.providers, settings.devices[0]), shrunk(settings.providers, 2)]))`;
    expect(await python(script, words)).toEqual([
      [
        [
          'TensorrtExecutionProvider',
          {
            device_id: '2',
            trt_engine_cache_enable: '1',
            trt_engine_cache_path: cache,
            trt_fp16_enable: '1',
            trt_max_workspace_size: String(2 * 1024 ** 3),
          },
        ],
        [
          'CUDAExecutionProvider',
          {
            device_id: '2',
            gpu_mem_limit: String(6 * 1024 ** 3),
            arena_extend_strategy: 'kSameAsRequested',
            use_tf32: '0',
          },
        ],
        ['CPUExecutionProvider', {}],
      ],
      'gpu:2;cpu:0',
    ]);
  });

  it('names what it does not run', async () => {
    const others: GivenModel[] = [
      { contract: 'edtalk_256', bytes: tinyEdtalk(), name: 'mouth' },
      { ...inswapper, options: { expression: 0.8 } },
    ];
    const script = `import json
from semblance_sidecars.ort.settings import read_settings
print(json.dumps(read_settings().manifest.left_out))`;
    expect(await python(script, await settings([detector, arcface, ...others]))).toEqual([
      'mouth (edtalk_256) is not run: this sidecar has no stage lips',
      'inswapper_128: its expression of 0.8 is left out, because LivePortrait is not run',
      'inswapper_128: match is applied to light only, not to grain',
    ]);
  });

  it('runs within a limit of memory, shrinks its arena, and says when the limit is too small', async () => {
    const arena = (limit: string) => ({ cpu_arena: { limit, arena_extend_strategy: 'kSameAsRequested' } });
    expect(await trouble(three, { ...arena('256MiB'), shrink_memory: true })).toBeUndefined();
    const large: GivenModel = { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 1, 0) };
    expect(await trouble([...three, large], arena('1MiB'))).toMatch(
      /the limit of memory is too small for it/,
    );
  });

  it('does not become warm without a provider that is named, rather than go on without it', async () => {
    expect(await trouble(three, { providers: { cuda: {}, cpu: {} } })).toMatch(
      /onnxruntime here is built without cuda/,
    );
  });

  it.each<[string, RegExp, readonly GivenModel[]]>([
    [
      'another hash',
      /inswapper_128\.onnx\): sha256: expected cdcd.*, found/,
      [{ ...inswapper, sha256: 'cd'.repeat(32) }],
    ],
    ['no emap', /expected emap/, [{ ...inswapper, bytes: tinySwapper({ emap: false }) }]],
    [
      'an input of another size',
      /input "target": expected float32 or float16 \[1 or open, 3, 128, 128\], found/,
      [{ ...inswapper, bytes: tinySwapper({ size: 256, emap: true }) }],
    ],
    [
      'a file that is cut off',
      /no ONNX model|cannot run it/,
      [{ ...inswapper, bytes: tinySwapper().slice(0, 5000) }],
    ],
    [
      'two faults',
      /inswapper_128.*gfpgan_1\.4/,
      [
        { ...inswapper, bytes: tinySwapper({ emap: false }) },
        { contract: 'gfpgan_1.4', bytes: tinyEnhancer(256, 1, 0) },
      ],
    ],
  ])('does not become warm with a model that has %s', async (_what, message, models) => {
    expect(await trouble([detector, arcface, ...models])).toMatch(message);
  });

  const offer = { memory_mib: 1 };
  it.each<[string, RegExp, Record<string, unknown>, (readonly GivenModel[])?]>([
    ['no folder of models', /settings\.yaml\.models: there is no folder/, { models: 'nowhere' }],
    [
      'an unknown provider',
      /providers\.rocm is unknown; known are tensorrt, cuda, cpu/,
      { providers: { rocm: {} } },
    ],
    [
      'an unknown option',
      /providers\.cuda\.gpu_memory is unknown; known are gpu_mem_limit/,
      { providers: { cuda: { gpu_memory: 1 } } },
    ],
    [
      'a wrong size',
      /gpu_mem_limit must be a size such as 6GiB/,
      { providers: { cuda: { gpu_mem_limit: 'much' } } },
    ],
    [
      'a wrong word',
      /arena_extend_strategy must be one of kNext/,
      { providers: { cuda: { arena_extend_strategy: 1 } } },
    ],
    [
      'tensorrt without a cache',
      /without it each start builds every engine anew/,
      { providers: { tensorrt: {} } },
    ],
    [
      'a cache that is not there',
      /trt_engine_cache_path must be a folder/,
      { providers: { tensorrt: { trt_engine_cache_path: 'gone' } } },
    ],
    ['something after the CPU', /cpu takes everything/, { providers: { cpu: {}, cuda: {} } }],
    ['devices of a CPU', /devices are of cuda and tensorrt/, { devices: [0] }],
    ['an arena without a limit', /cpu_arena\.limit must be/, { cpu_arena: {} }],
    ['another capability', /has only face-swap-image, face-swap/, { capabilities: { 'lip-sync': offer } }],
    ['no swapper', /has no model for the stage swapper/, {}, [detector]],
    ['no detector', /has no model for the stage detector/, {}, [arcface, inswapper]],
    ['no recogniser', /inswapper_128 needs a arcface_w600k_r50/, {}, [detector, inswapper]],
    ['two detectors', /would both do the stage detector/, {}, [...three, { ...detector, name: 'b' }]],
    [
      'a contract that is none',
      /there is no contract inswapper_1/,
      {},
      [...three, { ...inswapper, name: 'b', contract: 'inswapper_1' }],
    ],
    [
      'a licence that nobody accepted',
      /forbids commercial use/,
      {},
      [detector, arcface, { ...inswapper, licence: 'research only' }],
    ],
    [
      'an option out of range',
      /options\.match must be a number from 0 to 1/,
      {},
      [detector, arcface, { ...inswapper, options: { match: 2 } }],
    ],
    [
      'a boost that is no multiple',
      /boost must be auto or a multiple of 128/,
      {},
      [detector, arcface, { ...inswapper, options: { boost: 200 } }],
    ],
    [
      'a mask without its parser',
      /needs a parser for its mask/,
      {},
      [detector, arcface, { ...inswapper, options: { mask: 'parser' } }],
    ],
    [
      'a path that leaves the folder',
      /must be a path below the folder/,
      {},
      [detector, arcface, { contract: 'inswapper_128', file: '../x.onnx' }],
    ],
  ])(
    'says in one line what is wrong with settings that have %s',
    async (_what, message, change, models = three) => {
      const [program = '', ...words] = await settings(models, change);
      const error = await run(program, words).catch((reason: { stderr: string }) => reason);
      expect(error).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) });
      expect(error.stderr).toMatch(message);
    },
  );
});
