import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RenderResult } from '@semblance/engine-api/engine';
import { videoSwap } from '@semblance/engine-builtin/internal/video-swap/video-swap';
import { createMedia, findMediaTools } from '@semblance/media/media';
import type { Media, VideoFrame } from '@semblance/media/types';
import { regionToRgb } from '@semblance/media/yuv';
import { COLOR, makeClip, readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { distance, dlibJudge } from '@semblance/testkit/quality/judge';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import {
  type BenchContext,
  figure,
  limitRow,
  type Row,
  ratioRow,
  type Section,
  unmeasuredRow,
} from '../lib/section.ts';
import { cell } from '../photo-swap/contact-sheet.ts';
import { flicker, followFace, jitter, processorTime } from './measures.ts';
import { HIDDEN, hiddenPerson, OTHERS, onePerson, SIZE, SOURCE, severalPeople } from './scenes.ts';

const run = promisify(execFile);

/** Interval between judged frames. */
const SAMPLED = 10;
const ROUNDS = 5;
const FRAMES = 250;
const OTHER_FRAMES = 100;

/**
 * Measures the engine of Video Swap alone, in this process, on clips made here, and ffmpeg alone on the same clip.
 */
export async function runVideoSwapBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const title = 'Video Swap';
  const tools = await findMediaTools();
  if (!tools.available) return { title, rows: [unmeasuredRow('all', '', `no video tools: ${tools.reason}`)] };
  const directory = await mkdtemp(join(tmpdir(), 'semblance-video-bench-'));
  const media = createMedia({ tools });
  try {
    const [blazeface, facemesh, judge] = await Promise.all([
      openSession('blazeface'),
      openSession('facemesh'),
      dlibJudge(),
    ]);
    const finder = new FaceFinder({ blazeface, facemesh });
    const swap = async (video: string, name: string): Promise<RenderResult & { seconds: number }> => {
      const outputDir = join(directory, name);
      await mkdir(outputDir, { recursive: true });
      const start = performance.now();
      const signal = new AbortController().signal;
      const nothing = () => undefined;
      const renderTools = { finder, signal, checkpoint: nothing, onProgress: nothing };
      const result = await videoSwap({ video, face: SOURCE, outputDir }, media, renderTools);
      return { ...result, seconds: (performance.now() - start) / 1000 };
    };
    say('filming clips');
    const portrait = await onePerson(FRAMES);
    const single = join(directory, 'one.mp4');
    await makeClip(media, { path: single, ...SIZE, scenes: [portrait] });
    const [group, hidden] = [await severalPeople(40), await hiddenPerson(60)];
    const mixed = join(directory, 'mixed.mp4');
    await makeClip(media, { path: mixed, ...SIZE, scenes: [group, hidden] });

    say('swapping');
    const results = [await swap(mixed, 'mixed')];
    const ours: number[] = [];
    const alone: number[] = [];
    const cost = { ours: [] as number[], alone: [] as number[] };
    let last = results[0] as RenderResult;
    for (let round = 0; round < ROUNDS; round++) {
      const before = await processorTime();
      const result = await swap(single, 'one');
      const between = await processorTime();
      ours.push(FRAMES / result.seconds);
      last = result;
      const start = performance.now();
      await recode(tools.ffmpeg, single, join(directory, 'alone.mp4'));
      alone.push(FRAMES / ((performance.now() - start) / 1000));
      const after = await processorTime();
      if (before === undefined || between === undefined || after === undefined) continue;
      cost.ours.push((1000 * (between - before)) / FRAMES);
      cost.alone.push((1000 * (after - between)) / FRAMES);
    }
    say(
      `720p: ${ours.map((fps) => fps.toFixed(1)).join(', ')} fps; ffmpeg alone ${alone.map((fps) => fps.toFixed(1)).join(', ')}`,
    );
    say(
      `stages of the last, ms: ${last.stages.map(({ name, milliseconds }) => `${name} ${milliseconds.toFixed(0)}`).join(', ')}`,
    );

    say('judging');
    const before = await framesOf(media, single);
    const after = await framesOf(media, last.outputPath);
    const { drawn, fitted } = await followFace(finder, before);
    const light = flicker(before, after, drawn);
    const source = await readPicture(SOURCE);
    const [face] = await finder.find(source, () => undefined);
    if (!face) throw new Error('no face in the source');
    const wanted = await judge.describe(source, face);
    const cells: Buffer[] = [];
    /** Counts the sampled frames, and those that are nearer to the source than to the original person. */
    const likeness = async (film: { old: VideoFrame[]; fresh: VideoFrame[]; meshes: readonly Face[] }) => {
      let [nearer, judged] = [0, 0];
      for (let i = 0; i < film.fresh.length; i += SAMPLED) {
        const mesh = film.meshes[i] as Face;
        const [old, fresh] = [picture(film.old[i]), picture(film.fresh[i])];
        const [from, to] = [await judge.describe(old, mesh), await judge.describe(fresh, mesh)];
        judged++;
        if (distance(to, wanted) < distance(to, from)) nearer++;
        cells.push(await cell(old, mesh), await cell(fresh, mesh));
      }
      return { nearer, judged };
    };
    const likenesses = [
      { who: 'a cap and glasses', ...(await likeness({ old: before, fresh: after, meshes: drawn })) },
    ];
    for (const [who, portrait] of Object.entries(OTHERS)) {
      const path = join(directory, `other-${likenesses.length}.mp4`);
      await makeClip(media, { path, ...SIZE, scenes: [await onePerson(OTHER_FRAMES, portrait)] });
      const { outputPath } = await swap(path, `other-${likenesses.length}`);
      const [old, fresh] = [await framesOf(media, path), await framesOf(media, outputPath)];
      const { drawn: meshes } = await followFace(finder, old);
      likenesses.push({ who, ...(await likeness({ old, fresh, meshes })) });
    }
    await mkdir(outDir, { recursive: true });
    await sheet(cells, join(outDir, 'video-swap-frames.png'));
    await copyFile(last.outputPath, join(outDir, 'video-swap-one.mp4'));
    await copyFile(results[0]?.outputPath as string, join(outDir, 'video-swap-mixed.mp4'));
    const shown = 100 - HIDDEN.length;
    const swapped = Number(results[0]?.details.frames_with_swap);
    const middle = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] as number;
    const plain = (value: number, of: number, name: string): Row => ({
      name,
      ours: `${figure((100 * value) / of)} % (${value} of ${of})`,
      peer: '',
      ratio: '',
      goal: '',
      met: '',
    });
    const all = (value: number, of: number, name: string): Row => ({
      ...plain(value, of, name),
      goal: '100 %',
      met: value === of ? 'met' : 'not met',
    });
    const speed = middle(ours);
    return {
      title,
      rows: [
        all(Number(last.details.frames_with_swap), FRAMES, 'frames with a swap, one face'),
        all(swapped, shown, 'frames with a swap, several faces, a cut, 3 hidden frames'),
        {
          ...limitRow({
            name: 'jitter of the mesh above the motion',
            ours: jitter(portrait, drawn),
            limit: 0.2,
            unit: '% of eye distance',
          }),
          peer: `${figure(jitter(portrait, fitted))} % as fitted`,
        },
        limitRow({
          name: 'mean jump of brightness beyond the frame’s own',
          ours: light.mean,
          limit: 0.5,
          unit: 'levels',
        }),
        limitRow({
          name: 'largest jump of brightness beyond the frame’s own',
          ours: light.most,
          limit: 2,
          unit: 'levels',
        }),
        ...likenesses.map(({ who, nearer, judged }) =>
          plain(nearer, judged, `sampled frames nearer to the source (128-d descriptor), ${who}`),
        ),
        {
          name: '720p, one face',
          ours: `${figure(speed)} frames/s`,
          peer: '',
          ratio: '',
          goal: '≥ 40 frames/s',
          met: speed >= 40 ? 'met' : 'not met',
        },
        ratioRow({
          name: '720p, one face, against decoding and encoding alone',
          ours: speed,
          peer: middle(alone),
          unit: 'frames/s',
          peerName: 'ffmpeg alone',
          atLeast: 0.4,
        }),
        processorRow(middle(cost.ours), middle(cost.alone)),
      ],
      notes: [
        `Clips of ${FRAMES} and 100 frames, 1280 × 720; medians of ${ROUNDS}. Frames (before, after) and clips are in ${outDir}.`,
      ],
    };
  } finally {
    await media.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/** Two cores at 40 frames per second give each frame 50 ms of CPU time. */
function processorRow(ours: number | undefined, alone: number | undefined): Row {
  const [name, goal] = ['processor time a frame, 720p, one face', '≤ 50 ms'];
  if (ours === undefined || alone === undefined) return unmeasuredRow(name, goal, 'no /proc on this system');
  return {
    ...limitRow({ name, ours, limit: 50, unit: 'ms' }),
    peer: `${figure(alone)} ms ffmpeg alone`,
    ratio: (alone / ours).toFixed(2),
  };
}

/** Runs ffmpeg alone, which decodes a clip and encodes it again as the media layer does. */
async function recode(ffmpeg: string, from: string, to: string): Promise<void> {
  const codec = ['-c:v', 'libx264', '-preset', 'veryfast', '-crf', '19', '-bf', '0', '-threads', '2'];
  await run(ffmpeg, ['-v', 'error', '-y', '-nostdin', '-threads', '2', '-i', from, ...codec, to]);
}

async function framesOf(media: Media, path: string): Promise<VideoFrame[]> {
  const { signal } = new AbortController();
  const frames: VideoFrame[] = [];
  for await (const frame of media.decodeVideo(path, await media.probe(path, 'video', signal), { signal })) {
    frames.push(frame);
  }
  return frames;
}

function picture(frame: VideoFrame | undefined) {
  if (!frame) throw new Error('a frame is missing');
  const { width, height } = frame;
  return regionToRgb(frame, { x: 0, y: 0, width, height }, COLOR);
}

async function sheet(cells: readonly Buffer[], path: string): Promise<void> {
  const [side, perRow] = [224, 10];
  const height = Math.ceil(cells.length / perRow) * side;
  await sharp({ create: { width: perRow * side, height, channels: 3, background: '#202020' } })
    .composite(
      cells.map((input, i) => ({ input, left: (i % perRow) * side, top: Math.floor(i / perRow) * side })),
    )
    .png()
    .toFile(path);
}
