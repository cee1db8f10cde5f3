import { parentPort, workerData } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import { EngineInterruptedError, RenderError, type RenderResult } from '@semblance/engine-api/engine';
import { exhausted } from '@semblance/engine-api/exhausted';
import type { Findings } from '@semblance/engine-api/findings';
import type { RenderOptions } from '@semblance/engine-api/option';
import { createMedia, findMediaTools } from '@semblance/media/media';
import type { Media } from '@semblance/media/types';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { keepSpareDecoder, withOneDecoder } from '@semblance/vision/image/decoder';
import { openSession } from '@semblance/vision/models/session';
import { threadStarted } from '@semblance/vision/models/thread-gate';
import { BUILTIN_CAPABILITIES } from '../capabilities.ts';
import type { RenderTools } from '../renderer.ts';
import type { BuiltinSettings } from '../settings.ts';
import { chooseFace, withChosen } from '../swap/choose-face.ts';
import { madeOnce } from './made-once.ts';
import type { FromWorker, TaskWork, ToWorker, WorkerFailure, WorkerOptions } from './protocol.ts';
import { warmUp } from './warm-up.ts';

/** Entry file of a worker thread, which holds the networks and renders one job at a time. */

class CancelledError extends Error {
  override readonly name = 'CancelledError';
}

const port = parentPort;
if (!port) throw new Error('worker.ts runs in a worker thread only');

const { settings } = workerData as WorkerOptions;
const running = new Map<number, AbortController>();
const loadRecogniser = madeOnce(async () => new FaceRecogniser(await openSession('faceres')));

const loadFinder = madeOnce(async () => {
  const [blazeface, facemesh, face_features, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('face_cover'),
  ]);
  return new FaceFinder({ blazeface, facemesh, face_features, face_cover, recogniser: loadRecogniser });
});

const lookForMediaTools = madeOnce(() => findMediaTools());

const openMedia = madeOnce(async (): Promise<Media> => {
  const tools = await lookForMediaTools();
  if (!tools.available) throw new RenderError('processing_failed', tools.reason);
  return createMedia({ tools });
});

function send(message: FromWorker): void {
  port?.postMessage(message);
}

async function handle(message: Exclude<ToWorker, { type: 'cancel' }>): Promise<void> {
  const { id } = message;
  try {
    const loaded = await loadFinder();
    if (message.type === 'warm-up') {
      await warmUp(loaded, (await lookForMediaTools()).available);
      keepSpareDecoder();
      send({ type: 'done', id, result: null });
    } else {
      send({ type: 'done', id, result: await carryOut(message, loaded) });
    }
  } catch (error) {
    send({ type: 'failed', id, error: describe(error) });
  }
}

async function carryOut(
  message: Extract<ToWorker, TaskWork>,
  loaded: FaceFinder,
): Promise<RenderResult | Findings> {
  const { id } = message;
  const flag = new Int32Array(message.cancelled);
  const controller = new AbortController();
  running.set(id, controller);
  try {
    return await withOneDecoder(() =>
      act(message, {
        finder: loaded,
        recogniser: loadRecogniser,
        settings: message.type === 'render' ? withOptions(message.work.options) : settings,
        media: openMedia,
        signal: controller.signal,
        checkpoint: () => {
          if (Atomics.load(flag, 0) !== 0) throw new CancelledError('the render was cancelled');
        },
        onProgress: (fraction, stage) => send({ type: 'progress', id, fraction, stage }),
      }),
    );
  } catch (error) {
    // An error that a cancelled step throws is no fault of its own.
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    running.delete(id);
  }
}

/** Returns the settings with the options of a render in their place. */
function withOptions({ likeness }: RenderOptions = {}): BuiltinSettings | undefined {
  return typeof likeness === 'number' ? { ...settings, likeness } : settings;
}

async function act({ type, work }: TaskWork, tools: RenderTools): Promise<RenderResult | Findings> {
  if (type === 'inspect' && work.people) {
    const { findPeople } = await import('../people/find-people.ts');
    return { hints: [], people: await findPeople(work.inputs, { ...tools, recogniser: loadRecogniser }) };
  }
  const chosen = BUILTIN_CAPABILITIES.find(({ capability }) => capability === work.capability);
  if (!chosen) throw new Error(`no renderer for ${work.capability}`);
  const face = await chooseFace(work.inputs, { ...tools, recogniser: loadRecogniser });
  const { inputs } = face;
  if (type === 'render') {
    const result = await (await chosen.load())({ ...work, inputs }, tools);
    const findings = withChosen(result.findings, face);
    return findings ? { ...result, findings } : result;
  }
  if (work.preview) {
    const { previewSwap } = await import('../photo-swap/preview-swap.ts');
    const found = await previewSwap({ ...work, inputs }, work.preview, tools);
    return withChosen(found, face) ?? found;
  }
  if (!chosen.loadInspector) throw new Error(`${work.capability} has no picture to inspect`);
  const findings = await (await chosen.loadInspector())({ ...work, inputs }, tools);
  return withChosen(findings, face) ?? findings;
}

function describe(error: unknown): WorkerFailure {
  if (error instanceof CancelledError) return { code: 'cancelled', message: error.message, stack: undefined };
  const lack = exhausted(error);
  // The path goes to the log only, which records what an engine prints.
  if (lack) console.warn(`${lack.message}: ${describeError(error)}`);
  if (lack) return { code: lack.code, message: lack.message, stack: undefined };
  if (error instanceof RenderError || error instanceof EngineInterruptedError) {
    const findings = error instanceof RenderError ? error.findings : undefined;
    return { code: error.code, message: error.message, stack: error.stack, findings };
  }
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return { code: undefined, message, stack };
}

port.on('message', (message: ToWorker) => {
  if (message.type === 'cancel')
    running.get(message.id)?.abort(new CancelledError('the render was cancelled'));
  else void handle(message);
});

threadStarted();
