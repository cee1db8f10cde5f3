import { takesFaces } from '@semblance/engine-api/capabilities';
import type {
  Engine,
  EngineCapability,
  InspectRequest,
  RenderRequest,
  RenderResult,
} from '@semblance/engine-api/engine';
import { RenderError } from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import type { Findings } from '@semblance/engine-api/findings';
import { chooseFace, withChosen } from '@semblance/engine-builtin/swap/choose-face';
import { createMedia, findMediaTools } from '@semblance/media/media';
import { announcedSpeech } from '@semblance/speech/announce';
import type { MissingSpeechTools, SpeechTools } from '@semblance/speech/speech-tools';
import { findSpeechTools } from '@semblance/speech/tools';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceMesher } from '@semblance/vision/face-mesh';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { withOneDecoder } from '@semblance/vision/image/decoder';
import { openSession } from '@semblance/vision/models/session';
import { FaceSwap } from './face-swap.ts';
import { type CheckedModel, ModelDirError, openModelDir } from './model-dir.ts';
import { offersOf } from './offers.ts';
import { inspectPhotoSwap, photoSwap } from './photo-swap.ts';
import { optionsFor, withRenderOptions } from './render-options.ts';
import { PoolShare } from './sessions/pooled-models.ts';
import { SessionPool } from './sessions/session-pool.ts';
import { parseOnnxSettings } from './settings.ts';
import { openVoices } from './speech/voices.ts';
import { Models } from './stages/models.ts';
import { SwapThreads } from './swap-frames/swap-threads.ts';

/** Creates the engine that runs the owner's ONNX models. `builtin` does everything that has no model. */
export function createOnnxEngine(options: FactoryOptions): Engine {
  const settings = parseOnnxSettings(options.settings ?? {});
  let capabilities: readonly EngineCapability[] = [];
  let open: Promise<OpenEngine> | undefined;
  let closed = false;
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
      if (!open || closed) throw new Error(`the engine is ${closed ? 'closed' : 'not warm'}`);
      return (await open).render(request);
    },
    async inspect(request) {
      if (!open || closed) throw new Error(`the engine is ${closed ? 'closed' : 'not warm'}`);
      return (await open).inspect(request);
    },
    async close() {
      closed = true;
      await (await open?.catch(() => undefined))?.close();
    },
  };
}

interface OpenEngine {
  readonly capabilities: readonly EngineCapability[];
  render(request: RenderRequest): Promise<RenderResult>;
  inspect(request: InspectRequest): Promise<Findings>;
  close(): Promise<void>;
}

async function openEngine(
  settings: ReturnType<typeof parseOnnxSettings>,
  options: FactoryOptions,
  signal: AbortSignal,
  onEnd: (reason: string) => void,
): Promise<OpenEngine> {
  const { directory, models: all, order, faults } = await openModelDir(settings.modelDir, signal);
  if (faults.length > 0) throw new ModelDirError(directory, faults);
  // The models of live sessions run in the agent's own process.
  const models = all.filter(({ contract }) => !contract.stage.startsWith('voice'));
  const stages = new Set(models.map(({ contract }) => contract.stage));
  const tools = await findMediaTools();
  const spoken = stages.has('speech') ? await findSpeechTools() : undefined;
  const unread = spoken && whyUnread(spoken);
  if (unread !== undefined) console.warn(`not offered: avatar: ${unread}`);
  const offered = offersOf(stages, tools.available)
    .filter(({ capability }) => capability !== 'avatar' || unread === undefined)
    .map(({ capability, memoryMib }): EngineCapability => {
      const options = optionsFor(capability, models);
      return { capability, slots: 1, memoryMib, options, severalFaces: takesFaces(capability) };
    });
  if (offered.length === 0) {
    const present = [...stages].join(', ');
    const why = `${tools.available ? '' : `; no video: ${tools.reason}`}${unread === undefined ? '' : `; no speech: ${unread}`}`;
    throw new Error(`no capability can be made of the models in ${directory} (${present})${why}`);
  }
  const [blazeface, facemesh, face_features, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('face_cover'),
  ]);
  const gpus = settings.providers.filter((provider) => provider !== 'cpu');
  const providers = settings.gpuOnly && gpus.length > 0 ? gpus : settings.providers;
  const { pool, runs, notes } = await SessionPool.open(
    { models, providers, devices: settings.devices, threads: options.threads, onEnd },
    signal,
  );
  // The agent logs the output of this process.
  for (const note of notes) console.info(note);
  for (const { model, provider } of runs) console.info(`model ${model} runs on ${provider}`);
  const opened = new Models(pool, models);
  const speech = await voicesOf(pool, models, offered, spoken, signal).catch(async (error: unknown) => {
    await pool.close();
    throw error;
  });
  const voices = speech && announcedSpeech(speech);
  const capabilities = offered.map((one): EngineCapability => {
    return one.capability === 'avatar' && voices ? { ...one, speech: voices } : one;
  });
  let loaded: Promise<FaceRecogniser> | undefined;
  const recogniser = (): Promise<FaceRecogniser> => {
    loaded ??= openSession('faceres').then((session) => new FaceRecogniser(session));
    return loaded;
  };
  const finder = new FaceFinder({ blazeface, facemesh, face_features, face_cover, recogniser });
  const swap = new FaceSwap({ models: opened, finder, mesher: new FaceMesher(facemesh), order });
  const share = new PoolShare(pool, models, order);
  let threads: SwapThreads | undefined;
  const media = tools.available ? createMedia({ tools }) : undefined;
  /** Chooses among several pictures of a face; a swapper draws all of them together, where there is one. */
  const chosen = async <Request extends InspectRequest>(given: Request) => {
    const { signal } = given;
    const checkpoint = () => signal.throwIfAborted();
    const face = await chooseFace(given.inputs, { finder, recogniser, checkpoint });
    const others = swap.byMesh ? [] : face.others;
    const told = (result: RenderResult): RenderResult => {
      if (!swap.byMesh) return result;
      const findings = withChosen(result.findings, face);
      return findings ? { ...result, findings } : result;
    };
    const toldBefore = (findings: Findings): Findings =>
      (swap.byMesh ? withChosen(findings, face) : undefined) ?? findings;
    return { request: { ...given, inputs: face.inputs }, others, told, toldBefore };
  };
  const look = async (request: InspectRequest): Promise<Findings> => {
    if (request.capability === 'face-swap-image') return inspectPhotoSwap(swap, request);
    if (request.capability === 'face-swap')
      return (await import('./video-swap.ts')).inspectVideoSwap(swap, request);
    if (request.capability === 'avatar') return (await import('./avatar.ts')).inspectAvatar(finder, request);
    if (request.capability === 'motion-control')
      return (await import('./motion-transfer.ts')).inspectMotionTransfer(swap, request);
    throw new Error(`${request.capability} has no picture to inspect`);
  };
  return {
    capabilities,
    render: (request) => withOneDecoder(() => render(request)),
    inspect: (request) => withOneDecoder(() => inspect(request)),
    async close() {
      await threads?.close();
      share.close();
      await pool.close();
      await media?.close();
    },
  };

  async function render(given: RenderRequest): Promise<RenderResult> {
    const { capability } = given;
    if (!capabilities.some((offered) => offered.capability === capability))
      throw new RenderError('processing_failed', `The onnx engine has no capability ${capability}.`);
    const { request, others, told } = await chosen(given);
    const used = withRenderOptions(opened, request.options);
    const own = swap.using(used);
    if (capability === 'face-swap-image' || !media) return told(await photoSwap(own, request, others));
    const parts = { swap: own, finder, media, models: used };
    // This code is loaded with the first video, so that an engine for pictures starts without it.
    if (capability === 'face-swap') {
      threads ??= new SwapThreads(() => share.threadData());
      const { videoSwap } = await import('./video-swap.ts');
      return told(await videoSwap({ ...parts, threads, recogniser, others }, request));
    }
    if (capability === 'avatar' && speech)
      return (await import('./avatar.ts')).avatar({ ...parts, recogniser, speech }, request);
    if (capability === 'lip-sync') return (await import('./lip-sync.ts')).lipSync(parts, request);
    return (await import('./motion-transfer.ts')).motionTransfer(parts, request);
  }

  async function inspect(given: InspectRequest): Promise<Findings> {
    const { request, toldBefore } = await chosen(given);
    return toldBefore(await look(request));
  }
}

/** Returns why the owner's voices cannot read a text; undefined if they can. */
function whyUnread(spoken: SpeechTools | MissingSpeechTools): string | undefined {
  if (spoken.available && spoken.espeak) return undefined;
  const why = spoken.available ? 'espeak-ng or python3 is missing' : spoken.reason;
  return `the voices of the manifest need espeak-ng to read their texts: ${why}`;
}

/** Returns the synthesisers of the machine with the owner's voices; undefined if Avatar is not offered. */
async function voicesOf(
  pool: SessionPool,
  models: readonly CheckedModel[],
  capabilities: readonly EngineCapability[],
  spoken: SpeechTools | MissingSpeechTools | undefined,
  signal: AbortSignal,
): Promise<SpeechTools | undefined> {
  if (!spoken?.available || !capabilities.some(({ capability }) => capability === 'avatar')) return undefined;
  const speaking = models.filter(({ contract }) => contract.stage === 'speech');
  return { ...spoken, neural: await openVoices(pool, speaking, spoken, signal) };
}
