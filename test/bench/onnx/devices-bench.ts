import { setTimeout as delay } from 'node:timers/promises';
import { type RunsModels, StageLog } from '@semblance/engine-onnx/internal/stages/models';
import { FrameLine } from '@semblance/engine-onnx/internal/swap-frames/frame-line';
import { SwapThreads } from '@semblance/engine-onnx/internal/swap-frames/swap-threads';
import type { VideoFrame } from '@semblance/media/types';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { COLOR } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { openPooledSwap } from '@semblance/testkit/engine-onnx/pooled-swap';
import { type BenchContext, limitRow, quantile, ratioRow, type Section } from '../lib/section.ts';
import { threadTime } from './processor-time.ts';
import { filmScene, SWAPPER, type SwapScene } from './swap-scene.ts';

/** Milliseconds for which a run keeps a device. */
const RUN_MS = 40;
const WARM = 60;
const FRAMES = 60;
const ROUNDS = 3;
const THREADS = 2;
const LIMIT = 15;

/**
 * Measures frames per second of Video Swap with one device and with two, which are stood in for: a device is kept for
 * the time of a run, without work for the processor.
 */
export async function runDevicesBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const rig = new ModelDirRig();
  try {
    say('onnx: two devices');
    const scene = await filmScene();
    const [one, two]: [number[], number[]] = [[], []];
    const feeding: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      one.push((await feed(rig, scene, 1)).rate);
      const fed = await feed(rig, scene, 2);
      two.push(fed.rate);
      feeding.push(fed.milliseconds);
    }
    return {
      title: 'ONNX Video Swap: frames per second with two devices and with one',
      rows: [
        ratioRow({
          name: 'swapper, 1080p, one face',
          ours: quantile(two, 0.5),
          peer: quantile(one, 0.5),
          unit: 'frames/s',
          peerName: 'one device',
          atLeast: 1.8,
        }),
        limitRow({
          name: 'processor time of the thread that feeds two, each frame',
          ours: quantile(feeding, 0.5),
          limit: LIMIT,
          unit: 'ms',
        }),
      ],
      notes: [
        `Devices are stood in for: each keeps a run for ${RUN_MS} ms and costs the processor nothing. So the figure says whether ${THREADS} drawing threads can feed two; tracker, decoder and encoder are left out.`,
        `${ROUNDS} rounds in turn of ${FRAMES} frames after ${WARM}; medians.`,
      ],
    };
  } finally {
    await rig.close();
  }
}

/** Returns frames per second, and what a frame costs the calling thread. */
async function feed(
  rig: ModelDirRig,
  scene: SwapScene,
  devices: number,
): Promise<{ readonly rate: number; readonly milliseconds: number }> {
  const { finder, mesher, frame, face } = scene;
  const through = (pool: RunsModels) => keptFor(RUN_MS, devices, pool);
  const { swap, share, identity, close } = await openPooledSwap(rig, SWAPPER, { finder, mesher }, through);
  const threads = new SwapThreads(() => share.threadData(), THREADS);
  try {
    let [began, used] = [0, 0];
    const parts = {
      swap,
      threads,
      writer: { write: async () => undefined },
      signal: new AbortController().signal,
      log: new StageLog(),
      options: undefined,
      onWritten(frames: number) {
        if (frames === WARM) [began, used] = [performance.now(), threadTime()];
      },
    };
    const line = new FrameLine(parts, await identity(ASTRONAUT), COLOR);
    for (let index = 0; index < WARM + FRAMES; index++)
      await line.add([copyOf(frame, index)], [[{ track: 0, face, opacity: 1 }]]);
    await line.finish();
    line.close();
    return {
      rate: (1000 * FRAMES) / (performance.now() - began),
      milliseconds: (threadTime() - used) / FRAMES,
    };
  } finally {
    await threads.close();
    await close();
  }
}

function copyOf(frame: VideoFrame, index: number): VideoFrame {
  const data = new Uint8Array(new SharedArrayBuffer(frame.data.length));
  data.set(frame.data);
  return { ...frame, index, data };
}

/** Returns a pool whose runs each keep one of some devices for a time, in the order of arrival. */
function keptFor(milliseconds: number, devices: number, pool: RunsModels): RunsModels {
  const free = Array.from({ length: devices }, () => Promise.resolve());
  return {
    async run(model, feeds, signal) {
      const before = free.shift() ?? Promise.resolve();
      const kept = Promise.withResolvers<void>();
      free.push(kept.promise);
      await before;
      const [outputs] = await Promise.all([pool.run(model, feeds, signal), delay(milliseconds)]);
      kept.resolve();
      return outputs;
    },
  };
}
