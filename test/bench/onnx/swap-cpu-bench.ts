import { FaceTracker } from '@semblance/engine-builtin/video-swap/tracker';
import { fiveOf, placedAt } from '@semblance/engine-onnx/internal/face-places';
import { type OpenModel, StageLog } from '@semblance/engine-onnx/internal/stages/models';
import { editAround } from '@semblance/engine-onnx/internal/vision/frame-edit';
import type { VideoFrame } from '@semblance/media/types';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { COLOR } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { openPooledSwap } from '@semblance/testkit/engine-onnx/pooled-swap';
import { tinyBisenet, tinyEnhancer, tinyXseg } from '@semblance/testkit/engine-onnx/tiny-models';
import { type BenchContext, figure, limitRow, type Row, type Section } from '../lib/section.ts';
import { processTime, threadTime } from './processor-time.ts';
import { filmScene, SWAPPER, type SwapScene } from './swap-scene.ts';

const WARM = 40;
const FRAMES = 60;
/** Frames that the tracker follows at a time. */
const RUN = 10;
const LIMIT = 15;
const NEVER = new AbortController().signal;

const ALL: readonly GivenModel[] = [
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
        limitRow({
          name: 'drawing thread and networks of builtin: swapper alone',
          ours: few.total,
          limit: LIMIT,
          unit: 'ms',
        }),
        limitRow({
          name: 'drawing thread: swapper, enhancer, occlusion, parser',
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
        'A render shares this work among several threads; what is left to the one that feeds the devices is in the next table.',
      ],
    };
  } finally {
    await rig.close();
  }
}

interface Measured {
  readonly total: number;
  /** Stage → milliseconds of a frame. */
  readonly stages: ReadonlyMap<string, number>;
}

async function measure(rig: ModelDirRig, given: readonly GivenModel[], scene: SwapScene): Promise<Measured> {
  const { finder, mesher, face } = scene;
  const { swap, identity: find, close } = await openPooledSwap(rig, given, { finder, mesher });
  try {
    const identity = await find(ASTRONAUT);
    const frame = { ...scene.frame, data: scene.frame.data.slice() };
    const draw = (log: CpuLog): Promise<void> => {
      frame.data.set(scene.frame.data);
      return log.own('frame to RGB and back, masks', () =>
        editAround(frame, face, COLOR, (picture, mesh) =>
          swap.swapFaces(picture, [placedAt(mesh, fiveOf(mesh))], identity, NEVER, log).then(() => undefined),
        ),
      );
    };
    for (let i = 0; i < WARM; i++) await draw(new CpuLog());
    const log = new CpuLog();
    for (let i = 0; i < FRAMES; i++) await draw(log);
    const stages = new Map([...log.spent].map(([name, ms]) => [name, ms / FRAMES]));
    return { stages, total: [...stages.values()].reduce((sum, ms) => sum + ms, 0) };
  } finally {
    await close();
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

function rowsOf(what: string, stages: ReadonlyMap<string, number>): Row[] {
  return [...stages].map(([name, ms]) => plainRow(`${what}: ${name}`, ms));
}

function plainRow(name: string, ms: number): Row {
  return { name, ours: `${figure(ms)} ms`, peer: '', ratio: '', goal: '', met: '' };
}
