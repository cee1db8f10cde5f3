import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError } from '@semblance/common/config';
import { silentLogger } from '@semblance/common/logging';
import { headAndFace, headAndWords, portraitAndHead } from '@semblance/testkit/conformance/heads';
import { hosted } from '@semblance/testkit/conformance/subjects';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyLivePortrait } from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import {
  failingArcface,
  tinyArcface,
  tinySwapper,
  tinyWav2lip,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import { TEST_ENGINE } from '@semblance/testkit/gpu-agent/test-engine';
import sharp from 'sharp';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { failedOutcome } from '../attempts/failed-outcome.ts';
import { loadSettings } from '../settings.ts';
import { createEngineSet } from './engine-set.ts';
import { createEnginePool, type EnginePool } from './host/engine-pool.ts';
import { type EngineSource, engineSource } from './registry.ts';

const rig = useOnnxRig();
const models: GivenModel[] = [
  { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
  { contract: 'inswapper_128', bytes: tinySwapper() },
  { contract: 'wav2lip_96', bytes: tinyWav2lip() },
  ...tinyLivePortrait(),
];
const pools: EnginePool[] = [];
let tempDir: string;
beforeAll(async () => {
  tempDir = await mkdtemp(join(tmpdir(), 'semblance-onnx-process-'));
});
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});
afterAll(() => rm(tempDir, { recursive: true, force: true }));

/** Time for a cancelled render to end, in ms: the test machine may stand still. */
const cancelMs = 5_000;
const video = ['ffmpeg'];

engineConformance({
  title: 'the onnx engine',
  start: async (options) => {
    const settings = { modelDir: await rig.modelDir(models), providers: 'cpu', devices: '0' };
    return hosted(engineSource('onnx', { onnx: settings }), 1)(options);
  },
  works: [
    { capability: 'face-swap-image', samples: portraits, cancelMs },
    { capability: 'face-swap', samples: headAndFace, cancelMs, tags: video },
    { capability: 'lip-sync', samples: headAndWords, cancelMs, tags: [...video, 'speech'] },
    { capability: 'motion-control', samples: portraitAndHead, cancelMs, tags: video },
  ],
});

/** Time for processes to start, in ms: the test machine may be slow. */
const PROCESSES_MS = 120_000;

function startOnnx(modelDir: string): EnginePool {
  const settings = { SEMBLANCE_AGENT_ENGINES: 'onnx,builtin', SEMBLANCE_MODEL_DIR: modelDir };
  return start(engineSource('onnx', loadSettings(settings).engineSettings));
}

function start(source: EngineSource): EnginePool {
  const pool = createEnginePool({
    setup: {
      source,
      options: { threads: 1, ...(source.settings ? { settings: source.settings } : {}) },
    },
    processes: 1,
    rendersPerProcess: source.shared ? 2 : 1,
    tempDir,
    logger: silentLogger(),
  });
  pools.push(pool);
  return pool;
}

it(
  'renders in a process of its own, several at once, before the engine that comes after it',
  async () => {
    const [onnx, other] = [startOnnx(await rig.modelDir(models)), start(TEST_ENGINE)];
    const set = createEngineSet({ pools: [onnx, other], slots: 2 });
    await Promise.all([onnx.firstReady(), other.firstReady()]);
    expect(set.find('face-swap-image')?.pool).toBe(onnx);
    const work = async () => ({
      capability: 'face-swap-image' as const,
      inputs: { image: rig.image, face: rig.face },
      parameters: {},
      outputDir: await rig.outputDir(),
    });
    const options = { signal: AbortSignal.timeout(PROCESSES_MS), onProgress: () => undefined };
    const results = await Promise.all([
      onnx.render(await work(), options),
      onnx.render(await work(), options),
    ]);
    for (const { details } of results)
      expect(details).toMatchObject({ faces: 1, swapper: 'onnx inswapper_128' });
  },
  PROCESSES_MS,
);

it('ends a cancelled render while a large picture is encoded, and its process goes on with the others', {
  // If the machine stands still for a second, the agent kills the process, and the test fails.
  timeout: PROCESSES_MS,
  retry: 2,
}, async () => {
  // A cancelled render has one second, as in an agent.
  const onnx = startOnnx(await rig.modelDir(models));
  await onnx.firstReady();
  const pid = onnx.warm[0]?.pid;
  const large = sharp(rig.image).resize(6_000, 6_000).png({ compressionLevel: 1 });
  const work = async (image: string) => ({
    capability: 'face-swap-image' as const,
    inputs: { image, face: rig.face },
    parameters: {},
    outputDir: await rig.outputDir(),
  });
  const controller = new AbortController();
  const cancelled = onnx.render(await work(await rig.file('large.png', large.toBuffer())), {
    signal: controller.signal,
    onProgress: (_fraction, stage) => stage === 'encode' && controller.abort(new Error('enough')),
  });
  await expect(cancelled).rejects.toThrow('enough');
  const options = { signal: AbortSignal.timeout(PROCESSES_MS), onProgress: () => undefined };
  expect((await onnx.render(await work(rig.image), options)).details).toMatchObject({ faces: 1 });
  expect(onnx.warm.map((process) => process.pid)).toEqual([pid]);
});

it(
  'interrupts the work that a full device ended, and goes on in a new process with memory of its own',
  async () => {
    const message = 'Failed to allocate memory for requested buffer of size 13111296';
    const bytes = failingArcface('bright', message);
    const onnx = startOnnx(
      await rig.modelDir([{ contract: 'arcface_w600k_r50', bytes }, models[1] as GivenModel]),
    );
    await onnx.firstReady();
    const pid = onnx.warm[0]?.pid;
    // The brightest sample of a crop of this picture is white, and the recogniser's run fails.
    const work = {
      capability: 'face-swap-image' as const,
      inputs: {
        image: rig.image,
        face: await rig.file('bright.png', sharp(rig.face).linear(1.6).png().toBuffer()),
      },
      parameters: {},
      outputDir: await rig.outputDir(),
    };
    const options = { signal: AbortSignal.timeout(PROCESSES_MS), onProgress: () => undefined };
    const error = await onnx.render(work, options).catch((reason: unknown) => reason);
    expect(failedOutcome(error, silentLogger())).toMatchObject({ state: 'interrupted' });
    while (onnx.warm[0]?.pid === pid || onnx.warm.length === 0) await delay(20);
    expect(onnx.deviceTrouble).toBeUndefined();
    expect(onnx.engine).toBeDefined();
  },
  PROCESSES_MS,
);

it(
  'leaves the work to the next engine while its models do not fit, and says why',
  async () => {
    const wrong = [models[0] as GivenModel, { ...(models[1] as GivenModel), sha256: 'cd'.repeat(32) }];
    const [onnx, other] = [startOnnx(await rig.modelDir(wrong)), start(TEST_ENGINE)];
    await other.firstReady();
    while (!onnx.trouble || onnx.trouble === 'warming up') await delay(20);
    expect(onnx.trouble).toMatch(
      /the models in .* do not fit:\n {2}inswapper_128 \(inswapper_128\.onnx\): sha256: expected cdcd/,
    );
    expect(createEngineSet({ pools: [onnx, other], slots: 2 }).find('face-swap-image')?.pool).toBe(other);
  },
  PROCESSES_MS,
);

it('asks for its settings when it is named', () => {
  const settings = (more: Record<string, string>) =>
    loadSettings({ SEMBLANCE_AGENT_ENGINES: 'onnx,builtin', ...more });
  expect(() => settings({})).toThrow(ConfigError);
  expect(() => settings({})).toThrow(/SEMBLANCE_MODEL_DIR: must say where the models are/);
  expect(() => settings({ SEMBLANCE_MODEL_DIR: 'models' })).toThrow(/must be an absolute path/);
  const dir = { SEMBLANCE_MODEL_DIR: '/models' };
  expect(() => settings({ ...dir, SEMBLANCE_ONNX_PROVIDERS: 'cuda,magic' })).toThrow(
    /must be a list of: cuda, cpu/,
  );
  expect(() => settings({ ...dir, SEMBLANCE_ONNX_PROVIDERS: 'tensorrt,cuda' })).toThrow(
    /tensorrt is no provider any more; use cuda/,
  );
  expect(() => settings({ ...dir, SEMBLANCE_ONNX_PROVIDERS: 'cpu,cpu' })).toThrow(/must be a list/);
  expect(() => settings({ ...dir, SEMBLANCE_ONNX_DEVICES: '0,0' })).toThrow(/none twice/);
  const { engineSettings, engines } = settings({
    ...dir,
    SEMBLANCE_ONNX_PROVIDERS: 'cuda, cpu',
    SEMBLANCE_ONNX_DEVICES: '0,1',
  });
  expect(engines).toEqual(['onnx', 'builtin']);
  expect(engineSettings.onnx).toEqual({ modelDir: '/models', providers: 'cuda, cpu', devices: '0,1' });
});
