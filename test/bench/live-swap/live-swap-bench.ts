import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { RECOMMENDED } from '@semblance/engine-builtin/live-swap/types';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { type BenchContext, figure, limitRow, quantile, type Row, type Section } from '../lib/section.ts';
import { ADMIRAL, OTHERS, type Portrait } from '../video-swap/scenes.ts';
import { type Nearer, nearerToSource, sampled, swapFolder } from './nearer.ts';
import type { OneCoreFigures } from './one-core.ts';
import { talkingHead } from './talking-head.ts';

const FRAMES = 250;
/** Number of frames of each other person; only the likeness is measured on them. */
const OTHERS_FRAMES = 100;
const GOAL_FPS = 25;
const GOAL_P95_MS = 40;
const CORE = '0';

/** Measures the live swap of 480p pictures on one core, JPEG in and out, compared with the codec alone. */
export async function runLiveSwapBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const directory = await mkdtemp(join(tmpdir(), 'semblance-live-swap-bench-'));
  const [before, after] = [join(directory, 'in'), join(directory, 'out')];
  await Promise.all([before, after, outDir].map((path) => mkdir(path, { recursive: true })));
  try {
    const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
    const finder = new FaceFinder({ blazeface, facemesh });
    say('live-swap: filming a head that speaks');
    await film(finder, ADMIRAL, FRAMES, before);
    say('live-swap: swapping');
    const { figures, held } = await onOneCore(before, after);
    say(
      `live-swap: ${figures.fps.map((fps) => fps.toFixed(1)).join(', ')} fps; the codec alone ${figures.bareFps.map((fps) => fps.toFixed(1)).join(', ')}`,
    );
    const nearer: Record<string, Nearer> = {
      'a cap and glasses': await nearerToSource(finder, before, after),
    };
    for (const [who, portrait] of Object.entries(OTHERS)) {
      say(`live-swap: ${who}`);
      const [own, swapped] = [join(directory, `${who} in`), join(directory, `${who} out`)];
      await film(finder, portrait, OTHERS_FRAMES, own);
      await swapFolder(own, swapped);
      nearer[who] = await nearerToSource(finder, own, swapped);
    }
    await contactSheet(before, after, join(outDir, 'live-swap-frames.png'));
    return {
      title: 'Live swap',
      rows: rowsOf(figures, nearer),
      notes: [
        `${FRAMES} JPEGs of ${RECOMMENDED.width} × ${RECOMMENDED.height}: a head that nods, turns, speaks and blinks, with a camera's noise. ${held}`,
        `Pictures a second: one straight after the other, the median of ${figures.fps.length} rounds, by turns with decoding and encoding alone. Times of a picture and processor time (all threads): sent ${RECOMMENDED.fps} times a second.`,
        `Pictures before and after are in ${outDir}.`,
      ],
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Writes into a folder the pictures that a camera would send of a speaking head. */
async function film(finder: FaceFinder, portrait: Portrait, frames: number, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const made = await talkingHead(finder, portrait, { ...RECOMMENDED, frames });
  for (const [i, picture] of made.entries())
    await writeFile(join(to, `${String(i).padStart(4, '0')}.jpg`), picture);
}

function rowsOf(figures: OneCoreFigures, nearer: Readonly<Record<string, Nearer>>): Row[] {
  const [fps, bare] = [quantile(figures.fps, 0.5), quantile(figures.bareFps, 0.5)];
  const share = (count: number, of: number): string => `${figure((100 * count) / of)} % (${count} of ${of})`;
  return [
    {
      name: '480p on one core',
      ours: `${figure(fps)} pictures/s`,
      peer: `${figure(bare)} pictures/s (decoding and encoding alone)`,
      ratio: (fps / bare).toFixed(2),
      goal: `≥ ${GOAL_FPS} pictures/s`,
      met: fps >= GOAL_FPS ? 'met' : 'not met',
    },
    plainRow('time of a picture, p50', `${figure(quantile(figures.paced, 0.5))} ms`),
    limitRow({
      name: 'time of a picture, p95',
      ours: quantile(figures.paced, 0.95),
      limit: GOAL_P95_MS,
      unit: 'ms',
    }),
    plainRow(
      'time of a picture, p99 and most',
      `${figure(quantile(figures.paced, 0.99))} ms, ${figure(Math.max(...figures.paced))} ms`,
    ),
    {
      ...plainRow('processor time of a picture', `${figure(figures.cpuMs)} ms`),
      peer: `${figure(figures.bareCpuMs)} ms (decoding and encoding alone)`,
      ratio: (figures.bareCpuMs / figures.cpuMs).toFixed(2),
    },
    plainRow('opening a stream on a warm thread', `${figure(figures.openMs)} ms`),
    {
      ...plainRow('pictures with a swap', share(figures.swapped, FRAMES)),
      goal: '100 %',
      met: figures.swapped === FRAMES ? 'met' : 'not met',
    },
    ...Object.entries(nearer).map(
      ([who, { count, of }]): Row =>
        plainRow(`sampled pictures nearer to the source (128-d descriptor): ${who}`, share(count, of)),
    ),
  ];
}

function plainRow(name: string, ours: string): Row {
  return { name, ours, peer: '', ratio: '', goal: '', met: '' };
}

async function onOneCore(before: string, after: string): Promise<{ figures: OneCoreFigures; held: string }> {
  const script = join(import.meta.dirname, 'one-core.ts');
  const command = [process.execPath, ...AGENT_FLAGS, script, before, after];
  const taskset = await findOnPath('taskset');
  const [file, ...args] = taskset ? [taskset, '-c', CORE, ...command] : command;
  const { stdout } = await promisify(execFile)(file as string, args, { maxBuffer: 1 << 24 });
  return {
    figures: JSON.parse(stdout) as OneCoreFigures,
    held: taskset
      ? `The process with all its threads is held on core ${CORE} by taskset.`
      : 'There is no taskset here: the process had all cores.',
  };
}

async function contactSheet(before: string, after: string, path: string): Promise<void> {
  const [width, height, perRow] = [240, 180, 10];
  const files = (await sampled(after)).flatMap((name) => [join(before, name), join(after, name)]);
  const cells = await Promise.all(files.map((file) => sharp(file).resize(width, height).png().toBuffer()));
  const rows = Math.ceil(cells.length / perRow);
  await sharp({
    create: { width: perRow * width, height: rows * height, channels: 3, background: '#202020' },
  })
    .composite(
      cells.map((input, i) => ({
        input,
        left: (i % perRow) * width,
        top: Math.floor(i / perRow) * height,
      })),
    )
    .png()
    .toFile(path);
}
