import { execFile } from 'node:child_process';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  identitySwap,
  type Resolution,
} from '@semblance/engine-builtin/internal/identity-swap/identity-swap';
import { createMedia, findMediaTools, type MediaTools } from '@semblance/media/media';
import type { Media, VideoFrame } from '@semblance/media/types';
import {
  type Clip,
  clipFrame,
  room,
  walker,
  writeClip,
} from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  BLUE_SHIRT,
  type Dress,
  drawFigure,
  type Head,
  loadHead,
  RED_SHIRT,
  STANDING,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import {
  overlap,
  psnrOutside,
  rgbOf,
  silhouette,
} from '@semblance/testkit/engine-builtin/identity-swap/measure';
import { subjectOf, writeDriver } from '@semblance/testkit/engine-builtin/motion/drivers';
import { correlation, measureVideo } from '@semblance/testkit/engine-builtin/motion/series';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import type { PersonFinder } from '@semblance/vision/person';
import { openPersonFinder } from '@semblance/vision/person-finder';
import { maskInPicture } from '@semblance/vision/person-mask';
import sharp from 'sharp';
import { type BenchContext, figure, quantile, type Row, type Section } from '../lib/section.ts';

const RATE = 25;
const FRAMES = 100;
/** Interval between measured frames; the next constant is that between frames on the contact sheet. */
const EVERY = 5;
const SHOWN = 20;
/** Margin around the person that counts neither as person nor as background, in heights of the frame. */
const AWAY = 0.03;
const MEDIA = join(import.meta.dirname, '..', '..', '..', 'media');

interface Scene {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly resolution: Resolution;
  /** Clothes and head of the character. */
  readonly character: readonly [Dress, Head];
  readonly camera?: (t: number) => { x: number; y: number };
}

interface Outcome {
  readonly name: string;
  /**
   * IoU of the finder's mask with the person's own mask, for each measured frame; `silhouette` is the same for the
   * person in the output.
   */
  readonly mask: readonly number[];
  readonly silhouette: readonly number[];
  readonly background: readonly number[];
  readonly swapped: number;
  readonly framesPerSecond: number;
  readonly peer: number;
}

/**
 * Measures the engine of Identity Swap alone, in this process. Figures with known masks walk through a room that is
 * also known without them.
 */
export async function runIdentitySwapBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const tools = await findMediaTools();
  if (!tools.available) throw new Error(`no video can be made: ${tools.reason}`);
  const [astronaut, admiral] = await Promise.all([loadHead('astronaut'), loadHead('hopper')]);
  const [small, large] = [
    { width: 1024, height: 576, resolution: '1k' },
    { width: 1920, height: 1080, resolution: '2k' },
  ] as const;
  const pan = (t: number) => ({ x: 0.05 * t + 0.01 * Math.sin(9 * t), y: 0.01 * Math.sin(7 * t) });
  const scenes: Scene[] = [
    { name: '1k, the person itself', ...small, character: [BLUE_SHIRT, astronaut] },
    { name: '1k, another person', ...small, character: [RED_SHIRT, admiral] },
    { name: '1k, moving camera', ...small, character: [RED_SHIRT, admiral], camera: pan },
    { name: '2k, another person', ...large, character: [RED_SHIRT, admiral] },
  ];
  const finder = await openPersonFinder();
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const faces = new FaceFinder({ blazeface, facemesh });
  const media = createMedia({ tools });
  const directory = await mkdtemp(join(tmpdir(), 'semblance-bench-identity-'));
  const outcomes: Outcome[] = [];
  const rows: Buffer[][] = [];
  let head: HeadOutcome;
  try {
    say('identity-swap: head');
    head = await measureHead({ media, finder, faces, tools, directory, outDir });
    for (const scene of scenes) {
      say(`identity-swap: ${scene.name}`);
      const made = await measureScene(scene, astronaut, { media, finder, faces, tools, directory, outDir });
      outcomes.push(made.outcome);
      rows.push(...made.rows);
    }
  } finally {
    await finder.close();
    await media.close();
    await rm(directory, { recursive: true, force: true });
  }
  await writeSheet(rows, join(outDir, 'identity-swap-contact-sheet.png'));
  return sectionOf(outcomes, head, outDir);
}

interface Tools {
  readonly media: Media;
  readonly finder: PersonFinder;
  readonly faces: FaceFinder;
  readonly tools: MediaTools;
  readonly directory: string;
  readonly outDir: string;
}

async function measureScene(
  scene: Scene,
  head: Head,
  { media, finder, faces, tools, directory, outDir }: Tools,
): Promise<{ outcome: Outcome; rows: Buffer[][] }> {
  const { name, width, height, resolution, camera } = scene;
  const clip: Clip = {
    width,
    height,
    frames: FRAMES,
    rate: RATE,
    dress: BLUE_SHIRT,
    head,
    stance: walker(width, height),
    ...(camera ? { camera } : {}),
  };
  const video = join(directory, 'walk.mp4');
  await writeClip(media, clip, video);
  const character = join(directory, 'character.png');
  await writeCharacter(character, ...scene.character);
  const start = performance.now();
  const result = await identitySwap({ video, character, resolution, outputDir: directory }, media, {
    people: finder,
    finder: faces,
    signal: new AbortController().signal,
    checkpoint: () => undefined,
    onProgress: () => undefined,
  });
  const seconds = (performance.now() - start) / 1000;
  const measured = { mask: [] as number[], silhouette: [] as number[], background: [] as number[] };
  const [before, after]: [Buffer[], Buffer[]] = [[], []];
  const { signal } = new AbortController();
  const info = await media.probe(result.outputPath, 'video', signal);
  for await (const frame of media.decodeVideo(result.outputPath, info, { signal })) {
    if (frame.index % EVERY !== 0) continue;
    const truth = clipFrame(clip, frame.index);
    const rgb = rgbOf(frame);
    measured.silhouette.push(overlap(silhouette(rgb, truth.empty), truth.mask));
    measured.background.push(
      psnrOutside(rgb, truth.empty, truth.mask, { width, height, away: AWAY * height }),
    );
    const found = await finder.find({ width, height, channels: 3, data: truth.rgb });
    measured.mask.push(found ? overlap(maskInPicture(found.mask, width, height), truth.mask) : 0);
    if (frame.index % SHOWN !== 0) continue;
    before.push(await thumbnail(truth.rgb, frame));
    after.push(await thumbnail(rgb, frame));
  }
  const peer = await encodeAlone(tools, video, join(directory, 'peer.mp4'));
  await rename(result.outputPath, join(outDir, `identity-swap-${name.replaceAll(/[ ,]+/g, '-')}.mp4`));
  const outcome: Outcome = {
    name,
    ...measured,
    swapped: Number(result.details.frames_with_swap),
    framesPerSecond: FRAMES / seconds,
    peer: FRAMES / peer,
  };
  return { outcome, rows: [before, after] };
}

interface HeadOutcome {
  readonly aperture: number;
  readonly yaw: number;
  readonly pitch: number;
}

/** Measures how the head of a character follows a portrait that turns, nods and talks. The mesh measures both. */
async function measureHead({ media, finder, faces, directory, outDir }: Tools): Promise<HeadOutcome> {
  const video = join(directory, 'talk.mp4');
  const subject = await subjectOf(faces, join(MEDIA, 'astronaut.png'), 0, 400);
  await writeDriver(media, subject, 'animator', { path: video, frameRate: 15 });
  const job = {
    video,
    character: join(MEDIA, 'grace_hopper.jpg'),
    resolution: '1k',
    outputDir: directory,
  } as const;
  const { outputPath } = await identitySwap(job, media, {
    people: finder,
    finder: faces,
    signal: new AbortController().signal,
    checkpoint: () => undefined,
    onProgress: () => undefined,
  });
  const [a, b] = [await measureVideo(media, faces, video), await measureVideo(media, faces, outputPath)];
  await rename(outputPath, join(outDir, 'identity-swap-head.mp4'));
  return {
    aperture: correlation(a.aperture, b.aperture),
    yaw: correlation(a.yaw, b.yaw),
    pitch: correlation(a.pitch, b.pitch),
  };
}

async function writeCharacter(path: string, dress: Dress, head: Head): Promise<void> {
  const [width, height] = [800, 1200];
  const stance = { ...STANDING, x: width / 2, y: 0.965 * height, height: 0.9 * height };
  const { rgb } = drawFigure(width, height, stance, { dress, head }, room(width, height));
  await sharp(rgb, { raw: { width, height, channels: 3 } })
    .png()
    .toFile(path);
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

function thumbnail(data: Uint8Array, { width, height }: VideoFrame): Promise<Buffer> {
  return sharp(data, { raw: { width, height, channels: 3 } })
    .resize(384, 216, { fit: 'cover' })
    .png()
    .toBuffer();
}

async function writeSheet(rows: readonly Buffer[][], path: string): Promise<void> {
  const columns = Math.max(...rows.map((row) => row.length));
  await sharp({
    create: { width: columns * 384, height: rows.length * 216, channels: 3, background: '#202020' },
  })
    .composite(rows.flatMap((row, y) => row.map((input, x) => ({ input, left: x * 384, top: y * 216 }))))
    .png()
    .toFile(path);
}

function sectionOf(outcomes: readonly Outcome[], head: HeadOutcome, outDir: string): Section {
  const rows: Row[] = [];
  const row = (name: string, ours: string, goal = '', met?: boolean, peer = '', ratio = ''): void => {
    rows.push({ name, ours, peer, ratio, goal, met: met === undefined ? '' : met ? 'met' : 'not met' });
  };
  for (const { name, mask, silhouette: shape, background, swapped, framesPerSecond, peer } of outcomes) {
    const found = quantile(mask, 0.5);
    row(`${name}: person mask found, IoU, median`, found.toFixed(3), '≥ 0.85', found >= 0.85);
    row(`${name}: the same, least`, quantile(mask, 0).toFixed(3));
    const same = name.includes('itself');
    const drawn = quantile(shape, 0.5);
    // The goal holds only for the person itself, because the silhouette is compared with the person's own.
    const goal = same ? '≥ 0.85' : '';
    row(`${name}: silhouette drawn, IoU, median`, drawn.toFixed(3), goal, same ? drawn >= 0.85 : undefined);
    const least = quantile(background, 0);
    row(`${name}: background, least PSNR`, `${least.toFixed(1)} dB`, '≥ 30 dB', least >= 30);
    row(`${name}: frames swapped`, `${swapped} of ${FRAMES}`, 'all', swapped === FRAMES);
    row(
      `${name}: speed`,
      `${figure(framesPerSecond)} frames/s`,
      name.startsWith('1k') ? '≥ 8 frames/s' : '',
      name.startsWith('1k') ? framesPerSecond >= 8 : undefined,
      `${figure(peer)} frames/s (ffmpeg decodes and encodes alone)`,
      (framesPerSecond / peer).toFixed(2),
    );
  }
  row('head, of a person filmed from the chest up: opening of the mouth, r', head.aperture.toFixed(3));
  row('the same: yaw, r', head.yaw.toFixed(3));
  row('the same: pitch, r', head.pitch.toFixed(3));
  return {
    title: 'Identity Swap',
    rows,
    notes: [
      `Figures of shaded limbs with photographed heads walk and wave for ${FRAMES / RATE} s in a drawn room. IoU is against the ` +
        'mask with which the figure was drawn; PSNR is against the room without it, over all pixels farther than ' +
        `${AWAY * 100} % of the height from it. Preparing the character is within the time.`,
      `The contact sheet (reference above, output below) and the clips are in ${outDir}.`,
    ],
  };
}
