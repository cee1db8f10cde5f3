import { FaceTracker } from '@semblance/engine-builtin/video-swap/tracker';
import { FaceSwap } from '@semblance/engine-onnx/internal/face-swap';
import { fiveOf, placedAt } from '@semblance/engine-onnx/internal/face-places';
import { Models, type OpenModel, StageLog } from '@semblance/engine-onnx/internal/stages/models';
import { editAround } from '@semblance/engine-onnx/internal/vision/frame-edit';
import { openModelDir } from '@semblance/engine-onnx/model-dir';
import { SessionPool } from '@semblance/engine-onnx/sessions/session-pool';
import type { VideoFrame } from '@semblance/media/types';
import { rgbToRegion } from '@semblance/media/yuv';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { COLOR, cropOf } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  tinyArcface,
  tinyBisenet,
  tinyEnhancer,
  tinySwapper,
  tinyXseg,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, FaceMesher } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb } from '@semblance/vision/picture';
import { type BenchContext, figure, limitRow, type Row, type Section } from '../lib/section.ts';

const SIZE = { width: 1920, height: 1080 };
const WARM = 40;
const FRAMES = 60;
/** The face of the picture, and frame pixels per pixel of it. */
const MIDDLE = { x: 224, y: 110 };
const ZOOM = 4;
/** Frames that the tracker follows at a time. */
const RUN = 10;
const LIMIT = 15;
const NEVER = new AbortController().signal;

const SWAPPER: readonly GivenModel[] = [
  { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
  { contract: 'hyperswap_1a_256', bytes: tinySwapper({ size: 256, batch: 'n' }) },
];
export const ALL: readonly GivenModel[] = [
  ...SWAPPER,
  { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 1, 0) },
  { contract: 'xseg_1', bytes: tinyXseg() },
  { contract: 'bisenet_resnet_34', bytes: tinyBisenet() },
];

/**
 * Measures the processor time of a frame of 1080p with one face beside the models, by stage. The models are tiny and
 * run in their own threads, so what is left is the engine's own work.
 */
export async function runSwapCpuBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const rig = new ModelDirRig();
  try {
    say('onnx: processor time by stage');
    const scene = await filmScene();
    const few = await measure(rig, SWAPPER, scene);
    const all = await measure(rig, ALL, scene);
    const tracker = await trackerTime(scene);
    return {
      title: 'ONNX Video Swap: processor time of a 1080p frame with one face, beside the models',
      rows: [
        limitRow({ name: 'swapper alone', ours: few.total, limit: LIMIT, unit: 'ms' }),
        limitRow({
          name: 'swapper, enhancer, occlusion, parser',
          ours: all.total,
          limit: LIMIT,
          unit: 'ms',
        }),
        ...rowsOf('swapper alone', few.stages),
        ...rowsOf('all', all.stages),
        plainRow('tracker, for each frame', tracker),
      ],
      notes: [
        `${FRAMES} frames after ${WARM}, one at a time; the face is ${Math.round(scene.face.width)} pixels wide.`,
        'A stage of a model counts the time of the drawing thread: crop, tensors, and messages to the session thread.',
        'Stages of builtin count its networks too. The tracker, the decoder and the encoder are not in the totals.',
      ],
    };
  } finally {
    await rig.close();
  }
}

export interface SwapScene {
  readonly frame: VideoFrame;
  readonly face: Face;
  readonly finder: FaceFinder;
  readonly mesher: FaceMesher;
}

/** Returns a frame with one face, and what finds it. */
export async function filmScene(): Promise<SwapScene> {
  const [blazeface, facemesh, face_features, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('face_cover'),
  ]);
  const finder = new FaceFinder({ blazeface, facemesh, face_features, face_cover });
  const picture = await readFace(ASTRONAUT);
  const view = { ...MIDDLE, zoom: ZOOM };
  const shown = cropRgb(picture, cropOf(view, SIZE), SIZE.width, SIZE.height);
  const data = new Uint8Array((SIZE.width * SIZE.height * 3) / 2);
  const whole = { x: 0, y: 0, ...SIZE };
  rgbToRegion({ ...SIZE, data }, whole, shown.data, COLOR);
  const seen = { ...SIZE, channels: 3 as const, data: Uint8Array.from(shown.data, Math.round) };
  const [face] = await finder.find(seen, () => undefined);
  if (!face) throw new Error('no face in the frame of the bench');
  return {
    frame: { ...SIZE, index: 0, ptsUs: 0, data },
    face,
    finder,
    mesher: new FaceMesher(facemesh),
  };
}

interface Measured {
  readonly total: number;
  /** Stage → milliseconds of a frame. */
  readonly stages: ReadonlyMap<string, number>;
}

export async function measure(rig: ModelDirRig,given: readonly GivenModel[], scene: SwapScene): Promise<Measured> {
  const { models, order, faults } = await openModelDir(await rig.make(given));
  if (faults.length > 0) throw new Error(faults.join('; '));
  const options = { models, providers: ['cpu'] as const, devices: [0], threads: 1 };
  const { pool } = await SessionPool.open(options, AbortSignal.timeout(60_000));
  try {
    const { finder, mesher, face } = scene;
    const swap = new FaceSwap({ models: new Models(pool, models), finder, mesher, order });
    const source = await readFace(ASTRONAUT);
    const [own] = (await swap.places.look(source, NEVER, new StageLog())).faces;
    const identity = own && (await swap.identify(source, own, NEVER, new StageLog()));
    if (!identity) throw new Error('no face in the picture of the bench');
    const frame = { ...scene.frame, data: scene.frame.data.slice() };
    const draw = (log: CpuLog): Promise<void> => {
      frame.data.set(scene.frame.data);
      return log.own('frame to RGB and back, masks', () =>
        editAround(frame, face, COLOR, (picture, mesh) =>
          swap
            .swapFaces(picture, [placedAt(mesh, fiveOf(mesh))], identity, NEVER, log)
            .then(() => undefined),
        ),
      );
    };
    for (let i = 0; i < WARM; i++) await draw(new CpuLog());
    const log = new CpuLog();
    for (let i = 0; i < FRAMES; i++) await draw(log);
    const stages = new Map([...log.spent].map(([name, ms]) => [name, ms / FRAMES]));
    return { stages, total: [...stages.values()].reduce((sum, ms) => sum + ms, 0) };
  } finally {
    await pool.close();
  }
}

async function trackerTime({ frame, finder }: SwapScene): Promise<number> {
  const tracker = new FaceTracker(finder, COLOR, () => undefined);
  const run = (from: number): VideoFrame[] =>
    Array.from({ length: RUN }, (_, i) => ({ ...frame, index: from + i }));
  let before: VideoFrame[] = [];
  let began = 0;
  for (let from = 0; from < WARM + FRAMES; from += RUN) {
    if (from === WARM) began = processTime();
    const now = run(from);
    await tracker.follow(now, before);
    before = now;
  }
  return (processTime() - began) / FRAMES;
}

/** Adds up the processor time that each stage takes itself. One face of one frame is in it at a time. */
class CpuLog extends StageLog {
  readonly spent = new Map<string, number>();
  /** Milliseconds of this thread in the stages inside the current one. */
  #inside = 0;

  override onnx<T>(name: string, model: OpenModel, work: () => Promise<T>): Promise<T> {
    return this.#spend(name, threadTime, () => super.onnx(name, model, work));
  }

  /** The networks of `builtin` run in other threads of the process. */
  override builtin<T>(name: string, how: string, work: () => T | Promise<T>): Promise<T> {
    return this.#spend(name, processTime, () => super.builtin(name, how, work));
  }

  override own<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    return this.#spend(name, threadTime, () => super.own(name, work));
  }

  async #spend<T>(name: string, clock: () => number, work: () => Promise<T>): Promise<T> {
    const around = this.#inside;
    this.#inside = 0;
    const [before, here] = [clock(), threadTime()];
    try {
      return await work();
    } finally {
      const all = clock() - before;
      this.spent.set(name, (this.spent.get(name) ?? 0) + all - this.#inside);
      this.#inside = around + threadTime() - here;
    }
  }
}

/** Returns the processor time of this thread, in milliseconds. */
function threadTime(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Returns the processor time of all threads of this process, in milliseconds. */
function processTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function rowsOf(what: string, stages: ReadonlyMap<string, number>): Row[] {
  return [...stages].map(([name, ms]) => plainRow(`${what}: ${name}`, ms));
}

function plainRow(name: string, ms: number): Row {
  return { name, ours: `${figure(ms)} ms`, peer: '', ratio: '', goal: '', met: '' };
}
