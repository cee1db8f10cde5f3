import { execFile } from 'node:child_process';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Picture } from '@semblance/engine-api/picture';
import { toRgb } from '@semblance/engine-builtin/motion-transfer/face-tracker';
import { transferMotion } from '@semblance/engine-builtin/motion-transfer/motion-transfer';
import { createMedia, findMediaTools, type MediaTools } from '@semblance/media/media';
import type { Media, VideoFrame } from '@semblance/media/types';
import {
  DRIVER_SEC,
  motionAt,
  type Subject,
  subjectOf,
  writeDriver,
} from '@semblance/testkit/engine-builtin/motion/drivers';
import { bestLag, correlation, measureVideo } from '@semblance/testkit/engine-builtin/motion/series';
import { cosine, dlibJudge, type Judge } from '@semblance/testkit/quality/judge';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { type BenchContext, figure, quantile, type Row, ratioRow, type Section } from '../lib/section.ts';
import { landmarkJudge, type Openings } from './landmark-judge.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const HEIGHT = 720;
const RATE = 25;
/**
 * Interval between frames on the contact sheet; the next constant is that between frames whose identity is judged.
 */
const SHEET_EVERY = 25;
const JUDGE_EVERY = 10;

/** File of a photograph, and index of the face in it from left to right. */
type Photograph = readonly [string, number];

const ASTRONAUT: Photograph = [join(ROOT, 'media', 'astronaut.png'), 0];
const ADMIRAL: Photograph = [join(ROOT, 'media', 'grace_hopper.jpg'), 0];

/** Photograph of the driver, how the driver is made, and the portrait that it moves. */
const RUNS: readonly (readonly [Photograph, 'animator' | 'ellipsoid', Photograph])[] = [
  [ADMIRAL, 'animator', ASTRONAUT],
  [ASTRONAUT, 'ellipsoid', ADMIRAL],
  [ASTRONAUT, 'animator', sample(6, 0)],
  [ADMIRAL, 'ellipsoid', sample(5, 0)],
];

function sample(n: number, place: number): Photograph {
  const demo = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
  return [join(demo, `sample${n}.jpg`), place];
}

const MEASURES = ['aperture', 'roll', 'yaw', 'pitch'] as const;

interface Outcome {
  readonly label: string;
  readonly r: Record<(typeof MEASURES)[number], number>;
  /**
   * Correlation of the mouth's opening as the landmark judge sees it: driver with output, and drawn motion with
   * output.
   */
  readonly judged: { readonly driver: number; readonly told: number };
  readonly lag: number;
  readonly identity: readonly number[];
  readonly framesPerSecond: number;
  /** CPU time per frame of this process in ms, without the decoder and the encoder. */
  readonly cpuMsPerFrame: number;
  readonly peer: number;
  readonly lost: number;
}

/**
 * Measures the engine of Motion Transfer alone, in this process. The drivers are made here; the mesh measures their
 * motion and that of the output.
 */
export async function runMotionBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const tools = await findMediaTools();
  if (!tools.available) throw new Error(`no video can be made: ${tools.reason}`);
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const judges = { judge: await dlibJudge(), openings: await landmarkJudge() };
  const media = createMedia({ tools });
  const directory = await mkdtemp(join(tmpdir(), 'semblance-bench-motion-'));
  const outcomes: Outcome[] = [];
  const rows: Buffer[][] = [];
  try {
    for (const [driver, how, still] of RUNS) {
      const [from, to] = [
        await subjectOf(finder, ...driver, HEIGHT),
        await subjectOf(finder, ...still, HEIGHT),
      ];
      const label = `${from.name} (${how}) to ${to.name}`;
      say(`motion: ${label}`);
      const made = await measureRun(
        { from, to, how, label, directory, outDir },
        { media, finder, tools, ...judges },
      );
      outcomes.push(made.outcome);
      rows.push(...made.rows);
    }
  } finally {
    await media.close();
    await rm(directory, { recursive: true, force: true });
  }
  await writeSheet(rows, join(outDir, 'motion-contact-sheet.png'));
  return sectionOf(outcomes, outDir);
}

async function measureRun(
  run: {
    from: Subject;
    to: Subject;
    how: 'animator' | 'ellipsoid';
    label: string;
    directory: string;
    outDir: string;
  },
  parts: {
    media: Media;
    finder: FaceFinder;
    tools: MediaTools;
    judge: Judge;
    openings: (picture: Picture, face: Face) => Promise<Openings>;
  },
): Promise<{ outcome: Outcome; rows: Buffer[][] }> {
  const { from, to, how, label, directory, outDir } = run;
  const { media, finder, tools, judge, openings } = parts;
  const driver = join(directory, 'driver.mp4');
  const image = join(directory, 'still.png');
  await writeDriver(media, from, how, { path: driver, frameRate: RATE });
  const { width, height, data } = to.picture;
  await sharp(data, { raw: { width, height, channels: 3 } })
    .png()
    .toFile(image);
  const start = performance.now();
  const cpu = process.cpuUsage();
  const result = await transferMotion({ image, driver, outputDir: directory }, media, {
    finder,
    signal: new AbortController().signal,
    checkpoint: () => undefined,
    onProgress: () => undefined,
  });
  const seconds = (performance.now() - start) / 1000;
  const used = process.cpuUsage(cpu);
  const clip = join(outDir, `motion-${from.name}-${how}-${to.name}.mp4`.replaceAll('#', '-'));
  const still = await judge.describe(to.picture, to.face);
  const identity: number[] = [];
  const mouths = { driver: [] as number[], output: [] as number[] };
  const [driven, shots]: Buffer[][] = [[], []];
  const before = await measureVideo(media, finder, driver, async (frame, face) => {
    mouths.driver.push((await openings(whole(frame), face)).mouth);
    if (frame.index % SHEET_EVERY === 12) driven?.push(await thumbnail(frame));
  });
  const after = await measureVideo(media, finder, result.outputPath, async (frame, face) => {
    mouths.output.push((await openings(whole(frame), face)).mouth);
    if (frame.index % JUDGE_EVERY === 0) {
      identity.push(cosine(still, await judge.describe(whole(frame), face)));
    }
    if (frame.index % SHEET_EVERY === 12) shots?.push(await thumbnail(frame));
  });
  const peer = await encodeAlone(tools, result.outputPath, join(directory, 'peer.mp4'));
  await rename(result.outputPath, clip);
  const r = Object.fromEntries(
    MEASURES.map((name) => [name, correlation(before[name], after[name])]),
  ) as Outcome['r'];
  const frames = DRIVER_SEC * RATE;
  const outcome: Outcome = {
    label,
    r,
    identity,
    judged: {
      driver: correlation(mouths.driver, mouths.output),
      told: correlation(
        after.ptsUs.map((us) => motionAt(us / 1e6).open),
        mouths.output,
      ),
    },
    lag: bestLag(before.aperture, after.aperture),
    framesPerSecond: frames / seconds,
    cpuMsPerFrame: (used.user + used.system) / 1000 / frames,
    peer: frames / peer,
    lost: before.missing + after.missing,
  };
  return { outcome, rows: [driven ?? [], shots ?? []] };
}

/** Returns the seconds that ffmpeg takes to decode a clip and encode it again as the engine does. */
async function encodeAlone(tools: MediaTools, from: string, to: string): Promise<number> {
  const start = performance.now();
  await promisify(execFile)(tools.ffmpeg, [
    ...['-v', 'error', '-nostdin', '-y', '-i', from],
    ...['-c:v', 'libx264', '-preset', 'veryfast', '-crf', '19', '-bf', '0', '-pix_fmt', 'yuv420p', to],
  ]);
  return (performance.now() - start) / 1000;
}

function whole(frame: VideoFrame) {
  return toRgb(frame, { left: 0, top: 0, right: frame.width, bottom: frame.height }, 1);
}

async function thumbnail(frame: VideoFrame): Promise<Buffer> {
  const { width, height, data } = whole(frame);
  return sharp(data, { raw: { width, height, channels: 3 } })
    .resize(260, 240, { fit: 'cover' })
    .png()
    .toBuffer();
}

async function writeSheet(rows: readonly Buffer[][], path: string): Promise<void> {
  const columns = Math.max(...rows.map((row) => row.length));
  await sharp({
    create: { width: columns * 260, height: rows.length * 240, channels: 3, background: '#202020' },
  })
    .composite(rows.flatMap((row, y) => row.map((input, x) => ({ input, left: x * 260, top: y * 240 }))))
    .png()
    .toFile(path);
}

function sectionOf(outcomes: readonly Outcome[], outDir: string): Section {
  const rows: Row[] = [];
  for (const { label, r, judged, lag, identity, lost } of outcomes) {
    for (const name of MEASURES) rows.push(leastRow(`${label}: ${name}, r`, r[name], 0.95));
    rows.push(leastRow(`${label}: mouth by 68 landmarks, r`, judged.driver, 0.95));
    rows.push(leastRow(`${label}: mouth told, r with 68 landmarks`, judged.told, 0.95));
    rows.push(leastRow(`${label}: identity, least cosine`, quantile(identity, 0), 0.85));
    rows.push({
      name: `${label}: lag of the mouth`,
      ours: `${lag} frames`,
      peer: '',
      ratio: '',
      goal: '',
      met: '',
    });
    rows.push({ name: `${label}: frames lost`, ours: figure(lost), peer: '', ratio: '', goal: '', met: '' });
  }
  for (const { label, framesPerSecond, cpuMsPerFrame, peer } of outcomes) {
    const row = ratioRow({
      name: `${label}: ${HEIGHT}p`,
      ours: framesPerSecond,
      peer,
      unit: 'frames/s',
      peerName: 'ffmpeg decodes and encodes alone',
      atLeast: 0,
    });
    rows.push({ ...row, goal: '≥ 25 frames/s', met: framesPerSecond >= 25 ? 'met' : 'not met' });
    const ours = `${figure(cpuMsPerFrame)} ms a frame`;
    rows.push({ name: `${label}: CPU without ffmpeg`, ours, peer: '', ratio: '', goal: '', met: '' });
  }
  return {
    title: 'Motion Transfer',
    rows,
    notes: [
      `Drivers of ${DRIVER_SEC} s at ${RATE} frames/s, ${HEIGHT} pixels high, made of photographs: by the animator, or ` +
        'painted onto an ellipsoid that shares nothing with it. r is between what the face mesh says of driver and ' +
        'output, identity between still and output by the 128-d descriptor of face-api, and the mouth once more by ' +
        'its 68 landmarks, which the engine does not use: against the driver, and against what the driver was told.',
      `The contact sheet (driver above, output below) and the clips are in ${outDir}.`,
    ],
  };
}

function leastRow(name: string, value: number, goal: number): Row {
  const met = value >= goal ? 'met' : 'not met';
  return { name, ours: value.toFixed(3), peer: '', ratio: '', goal: `≥ ${goal}`, met };
}
