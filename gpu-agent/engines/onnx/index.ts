import { FaceFinder } from '../builtin/vision/face-finder.ts';
import { FaceMesher } from '../builtin/vision/face-mesh.ts';
import type { Engine, EngineCapability, RenderRequest, RenderResult } from '../engine.ts';
import { RenderError } from '../engine.ts';
import { openSession } from '../models/session.ts';
import type { EngineOptions } from '../registry.ts';
import type { Stage } from './contracts/contract.ts';
import { FaceSwap } from './face-swap.ts';
import { ModelDirError, openModelDir } from './model-dir.ts';
import { photoSwap } from './photo-swap.ts';
import { SessionPool } from './sessions/session-pool.ts';
import { parseOnnxSettings } from './settings.ts';
import { Models } from './stages/models.ts';

/** Peak resident memory of one Photo Swap beside the models: two pictures of 40 megapixels and their encoder. */
const PHOTO_SWAP_MEMORY_MIB = 1536;
/** Stages of which one is enough to make a face swap better than `builtin` alone. */
const SWAP_STAGES: readonly Stage[] = ['swapper', 'enhancer', 'detector', 'landmarks'];

/** The engine that runs the owner's ONNX models. What it has no model for, `builtin` makes. */
export function createOnnxEngine(options: EngineOptions): Engine {
  const settings = parseOnnxSettings(options.settings ?? {});
  let capabilities: readonly EngineCapability[] = [];
  let open: Promise<OpenEngine> | undefined;
  const ended = Promise.withResolvers<string>();
  return {
    name: 'onnx',
    version: '1',
    get capabilities() {
      return capabilities;
    },
    ended: ended.promise,
    async warmUp(signal) {
      open ??= openEngine(settings, options, signal, ended.resolve);
      try {
        capabilities = (await open).capabilities;
      } catch (error) {
        open = undefined;
        throw error;
      }
    },
    async render(request) {
      if (!open) throw new Error('the engine is not warm');
      return (await open).render(request);
    },
    async close() {
      await (await open?.catch(() => undefined))?.close();
    },
  };
}

interface OpenEngine {
  readonly capabilities: readonly EngineCapability[];
  render(request: RenderRequest): Promise<RenderResult>;
  close(): Promise<void>;
}

async function openEngine(
  settings: ReturnType<typeof parseOnnxSettings>,
  options: EngineOptions,
  signal: AbortSignal,
  onEnd: (reason: string) => void,
): Promise<OpenEngine> {
  const { directory, models, faults } = await openModelDir(settings.modelDir, signal);
  if (faults.length > 0) throw new ModelDirError(directory, faults);
  const stages = new Set(models.map(({ contract }) => contract.stage));
  const capabilities: EngineCapability[] = [];
  if (SWAP_STAGES.some((stage) => stages.has(stage))) {
    capabilities.push({ capability: 'face-swap-image', slots: 1, memoryMib: PHOTO_SWAP_MEMORY_MIB });
  }
  if (capabilities.length === 0) {
    const present = [...stages].join(', ');
    throw new Error(`no capability can be made of the models in ${directory} (${present})`);
  }
  const [blazeface, facemesh] = await Promise.all([
    openSession('blazeface', options.cacheDir),
    openSession('facemesh', options.cacheDir),
  ]);
  const { pool, runs, notes } = await SessionPool.open(
    { models, providers: settings.providers, devices: settings.devices, threads: options.threads, onEnd },
    signal,
  );
  for (const note of notes) console.warn(note);
  for (const { model, provider } of runs) console.info(`model ${model} runs on ${provider}`);
  const swap = new FaceSwap({
    models: new Models(pool, models),
    finder: new FaceFinder({ blazeface, facemesh }),
    mesher: new FaceMesher(facemesh),
  });
  return {
    capabilities,
    async render(request) {
      if (request.capability === 'face-swap-image') return photoSwap(swap, request);
      throw new RenderError('processing_failed', `The onnx engine has no capability ${request.capability}.`);
    },
    close: () => pool.close(),
  };
}
