import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { appendFile, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Engine,
  type InspectRequest,
  RenderError,
  type RenderRequest,
  type RenderResult,
} from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import type { Findings } from '@semblance/engine-api/findings';
import type { EngineOption } from '@semblance/engine-api/option';
import type { EngineSource } from '@semblance/gpu-agent/engines/registry';
import sharp from 'sharp';

/** Small real engine that behaves, or misbehaves, as the parameter `mode` of a render says. */
export const TEST_ENGINE: EngineSource = {
  name: 'test',
  module: import.meta.url,
  factory: 'createTestEngine',
};
export const NO_WARM_UP: EngineSource = { ...TEST_ENGINE, factory: 'createColdEngine' };
export const HANGING_WARM_UP: EngineSource = { ...TEST_ENGINE, factory: 'createHangingEngine' };
/** Looks at no pictures before a render. */
export const BLIND: EngineSource = { ...TEST_ENGINE, factory: 'createBlindEngine' };
/** Has options: a number `strength`, a text `note`, and a choice `look`. */
export const OPTIONED: EngineSource = { ...TEST_ENGINE, factory: 'createOptionedEngine' };
/** Takes several pictures of a face. */
export const SEVERAL_FACES: EngineSource = { ...TEST_ENGINE, factory: 'createFacesEngine' };
/** Warms up successfully only from the second process on; a file in the cache directory counts the processes. */
export const SECOND_TIME: EngineSource = { ...TEST_ENGINE, factory: 'createSecondTimeEngine' };
/** Appends a line to the file `starts` of the cache directory for each process that warms up. */
export const COUNTED_STARTS: EngineSource = { ...TEST_ENGINE, factory: 'createCountedEngine' };

export function createTestEngine(_options: FactoryOptions): Engine {
  let closed = false;
  return {
    name: 'test',
    version: '1',
    capabilities: [
      { capability: 'face-swap-image', slots: 1, memoryMib: 64 },
      { capability: 'face-swap', slots: 2, memoryMib: 64, limits: { maxInputBytes: 5_500 } },
    ],
    unavailable: [{ capability: 'avatar', message: 'tests have no voice' }],
    warmUp: async () => {},
    async render(request) {
      if (closed) throw new Error('the engine was closed');
      return render(request);
    },
    inspect,
    async close() {
      closed = true;
    },
  };
}

/** Finds what the parameter `mode` says. */
async function inspect({ inputs, parameters, signal }: InspectRequest): Promise<Findings> {
  const faces = { found: 1, changed: 0, left: [{ reason: 'not_a_person' as const, count: 1 }] };
  switch (parameters.mode) {
    case 'refuse':
      throw new RenderError('face_not_detected', 'There is no face in the image.', {
        findings: { faces, hints: [] },
      });
    case 'throw':
      throw new Error('private details of the engine');
    case 'crash':
      process.kill(process.pid, 'SIGKILL');
      break;
    case 'slow':
      await delay(60_000, undefined, { signal });
  }
  const { size } = await stat(inputs.face ?? '');
  return { hints: [{ code: 'face_small', message: `The face has ${size} bytes.`, input: 'face' }] };
}

export function createBlindEngine(options: FactoryOptions): Engine {
  const { inspect: _, ...blind } = createTestEngine(options);
  return blind;
}

export function createOptionedEngine(options: FactoryOptions): Engine {
  const engine = createTestEngine(options);
  const announced: readonly EngineOption[] = [
    { name: 'strength', type: 'number', minimum: 0, maximum: 1, default: '0.5', description: 'How much.' },
    { name: 'note', type: 'text', maxLength: 40, description: 'What is said.' },
    {
      name: 'look',
      type: 'choice',
      choices: ['plain', 'film'],
      default: 'plain',
      description: 'How it looks.',
    },
  ];
  return { ...engine, capabilities: engine.capabilities.map((one) => ({ ...one, options: announced })) };
}

export function createFacesEngine(options: FactoryOptions): Engine {
  const engine = createTestEngine(options);
  return { ...engine, capabilities: engine.capabilities.map((one) => ({ ...one, severalFaces: true })) };
}

export function createColdEngine(options: FactoryOptions): Engine {
  return {
    ...createTestEngine(options),
    warmUp: () => Promise.reject(new Error('the model is damaged')),
  };
}

export function createHangingEngine(options: FactoryOptions): Engine {
  return { ...createTestEngine(options), warmUp: () => delay(60_000) };
}

export function createSecondTimeEngine(options: FactoryOptions): Engine {
  const mark = join(options.settings?.folder ?? '', 'mark');
  const before = existsSync(mark);
  writeFileSync(mark, '');
  return before ? createTestEngine(options) : createColdEngine(options);
}

export function createCountedEngine(options: FactoryOptions): Engine {
  const starts = join(options.settings?.folder ?? '', 'starts');
  return { ...createTestEngine(options), warmUp: () => appendFile(starts, `${process.pid}\n`) };
}

async function render(request: RenderRequest): Promise<RenderResult> {
  const { parameters, outputDir, signal, onProgress } = request;
  const mode = parameters.mode ?? 'ok';
  const outputPath = join(outputDir, 'out.png');
  onProgress(0.1, 'first');
  switch (mode) {
    case 'picture':
      return blurred(request, outputPath);
    case 'refuse':
      throw new RenderError('face_not_detected', 'There is no face in the image.');
    case 'disk-full':
      await writeFile('/dev/full', 'x');
      break;
    case 'no-process':
      throw new RenderError('unsupported_format', 'The file is damaged.', {
        cause: Object.assign(new Error('spawn /usr/bin/tool EAGAIN'), {
          code: 'EAGAIN',
          syscall: 'spawn /usr/bin/tool',
        }),
      });
    case 'no-file':
      await readFile('/nowhere/file');
      break;
    case 'throw':
      throw new Error('private details of the engine');
    case 'fail-with':
      throw new Error(parameters.message);
    case 'crash':
      process.kill(process.pid, 'SIGKILL');
      break;
    case 'exit':
      process.exit(3);
      break;
    case 'uncaught':
      setImmediate(() => {
        throw new Error('uncaught in the engine');
      });
      await delay(60_000);
      break;
    case 'slow':
      for (let step = 0; step < 1_000; step++) {
        onProgress(step / 1_000, 'slow');
        await delay(20, undefined, { signal });
      }
      break;
    case 'ignore-cancel':
      await delay(60_000);
      break;
    case 'block':
      for (;;) JSON.stringify(process.memoryUsage());
    case 'options': {
      await writeFile(outputPath, 'x');
      const message = JSON.stringify(request.options);
      return { ...result(outputPath, 'image/png'), findings: { hints: [{ code: 'face_small', message }] } };
    }
    case 'roles': {
      await writeFile(outputPath, 'x');
      const message = Object.keys(request.inputs).sort().join(' ');
      return { ...result(outputPath, 'image/png'), findings: { hints: [{ code: 'face_small', message }] } };
    }
    case 'chatter':
      for (let step = 0; step <= 100_000; step++) onProgress(step / 100_000, 'chatter');
      break;
    case 'nonsense':
      onProgress(Number.NaN, 'a');
      onProgress(-5, 'b');
      onProgress(99, 'c'.repeat(1_000));
      break;
    case 'outside':
      return result('/etc/hostname', 'image/png');
    case 'link':
      await symlink('/etc/hostname', outputPath);
      return result(outputPath, 'image/png');
    case 'empty':
      await writeFile(outputPath, '');
      return result(outputPath, 'image/png');
    case 'no-units':
      await writeFile(outputPath, 'x');
      return { ...result(outputPath, 'image/png'), units: { unit: 'image', quantity: Number.NaN } };
    case 'temporary':
      writeFileSync(join(process.env.TMPDIR ?? '', 'left-behind'), 'x');
      break;
    case 'environment':
      await writeFile(outputPath, JSON.stringify(process.env));
      return result(outputPath, 'image/png');
    case 'big':
      await writeFile(outputPath, Buffer.alloc(32 * 1024 * 1024, 7));
      return result(outputPath, 'image/png');
  }
  onProgress(0.9, 'last', 2);
  const hash = createHash('sha256');
  for (const path of Object.values(request.inputs)) hash.update(await readFile(path));
  await writeFile(outputPath, hash.digest());
  return result(outputPath, parameters.type ?? 'image/png');
}

function result(outputPath: string, contentType: string): RenderResult {
  return {
    outputPath,
    contentType,
    units: { unit: 'image', quantity: 1 },
    stages: [{ name: 'render', milliseconds: 1 }],
    details: {},
  };
}

/** The only mode that computes an output from its inputs, slowly enough to be cancelled. */
async function blurred(
  { inputs, signal, onProgress }: RenderRequest,
  outputPath: string,
): Promise<RenderResult> {
  try {
    for (const path of Object.values(inputs)) await sharp(path).stats();
  } catch {
    throw new RenderError('unsupported_format', 'An input is no picture.');
  }
  for (let step = 1; step < 6; step++) {
    onProgress(step / 6, 'blur', (6 - step) / 50);
    await delay(20, undefined, { signal });
  }
  await sharp(inputs.image).blur(3).png().toFile(outputPath);
  return result(outputPath, 'image/png');
}
