import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { renderLipSync } from '@semblance/engine-builtin/internal/lip-sync/lip-sync';
import { createMedia, findMediaTools } from '@semblance/media/media';
import type { Media } from '@semblance/media/types';
import { speakScript } from '@semblance/speech/speech';
import { findSpeechTools } from '@semblance/speech/tools';
import { watchMouth } from '@semblance/testkit/engine-builtin/lip-sync/watch-mouth';
import { correlation, shifted } from '@semblance/testkit/sound/correlation';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { type BenchContext, figure, type Row, type Section } from '../lib/section.ts';
import { goal, percent, row } from './rows.ts';
import { quietRows, soundRows } from './sound-rows.ts';

const run = promisify(execFile);
const STILL = join(import.meta.dirname, '..', '..', '..', 'media', 'astronaut.png');
/** ffmpeg filters for a 720p clip of a head, 300 pixels wide, that leans and nods, with the noise of a camera. */
const HEAD = [
  'scale=1280:1280',
  'rotate=0.06*sin(2*PI*t/3)',
  'crop=1280:720:0:60+20*sin(t)',
  'noise=alls=4:allf=t',
  'setsar=1',
].join(',');
const SECONDS = 10;
/** Number of renders, each beside ffmpeg alone; the speed is their median. */
const ROUNDS = 3;
const OLD_WORDS =
  'My mother bought a big map of Panama. Papa laughed. We may have to open the box at home, before it rains.';
const NEW_WORDS =
  'Bob and Pam have a farm above the harbour, far from my home. Hot apples, please, and a bottle of warm milk for mama.';

/** Measures Lip Sync: the motion of the mouth for a sound, and how much of it is seen in the picture. */
export async function runLipSyncBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const tools = await findMediaTools();
  if (!tools.available) throw new Error(tools.reason);
  const media = createMedia({ tools });
  const dir = await mkdtemp(join(tmpdir(), 'semblance-lip-sync-'));
  try {
    say('lip sync: sound');
    const rows = await soundRows();
    say('lip sync: music and noise');
    rows.push(...(await quietRows()));
    say('lip sync: picture');
    rows.push(...(await pictureRows({ media, ffmpeg: tools.ffmpeg, dir, outDir, say })));
    return {
      title: 'Lip Sync',
      rows,
      notes: [
        'Held-out voices are heard by no training; what their mouths should do follows from the phonemes that the synthesiser names.',
        'Without the gate, all sound is taken for speech. Where the peer says so, the figure is that of the same poses without it.',
        'In recordings of people, phonemes are found by aligning synthetic speech of the same words, which is good to about 20 ms: their correlation is a lower bound.',
        `The contact sheet (lip-sync.png) and the clip (lip-sync.mp4) are in ${outDir}.`,
      ],
    };
  } finally {
    await media.close();
    await rm(dir, { recursive: true, force: true });
  }
}

interface Studio {
  readonly media: Media;
  readonly ffmpeg: string;
  readonly dir: string;
  readonly outDir: string;
  readonly say: (line: string) => void;
}

async function pictureRows({ media, ffmpeg, dir, outDir, say }: Studio): Promise<Row[]> {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const { signal } = new AbortController();
  const path = (name: string): string => join(dir, name);
  const silent = path('silent.mp4');
  const input = ['-v', 'error', '-y', '-loop', '1', '-i', STILL, '-t', String(SECONDS), '-vf', HEAD];
  await run('ffmpeg', [...input, '-r', '25', '-c:v', 'libx264', '-crf', '17', '-pix_fmt', 'yuv420p', silent]);
  const oldVoice = await sound(media, path('old.wav'), 'slt', OLD_WORDS);
  const newVoice = await sound(media, path('new.wav'), 'awb', NEW_WORDS);
  const render = async (video: string, audio: string, to: string) => {
    const outputDir = await mkdtemp(join(dir, 'render-'));
    const meter = startMeter();
    const result = await renderLipSync(
      { capability: 'lip-sync', inputs: { video, audio }, parameters: {}, outputDir },
      {
        finder,
        media: async () => media,
        signal,
        checkpoint: () => undefined,
        onProgress: () => undefined,
      },
    );
    const rate = meter(Number(result.details.frames));
    await copyFile(result.outputPath, to);
    return { result, rate };
  };
  await render(silent, oldVoice.path, path('talking.mp4'));
  say('lip sync: the talking face speaks other words');
  const ours: Rate[] = [];
  const alone: Rate[] = [];
  const [talking, clip] = [path('talking.mp4'), join(outDir, 'lip-sync.mp4')];
  const seconds = Math.min(SECONDS, newVoice.seconds);
  let { result, rate } = await render(talking, newVoice.path, clip);
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0) ({ result, rate } = await render(talking, newVoice.path, clip));
    ours.push(rate);
    alone.push(await codecRate(ffmpeg, talking, path('copy.mp4'), seconds));
  }
  const [fps, codec] = [ours, alone].map((rates) => median(rates.map((one) => one.fps))) as [number, number];
  const [cpu, codecCpu] = [ours, alone].map((rates) => median(rates.map((one) => one.cpuMs))) as [
    number,
    number,
  ];
  const watched = await watchMouth(await decoded(media, join(outDir, 'lip-sync.mp4')), newVoice.samples);
  const first = await watchMouth(await decoded(media, path('talking.mp4')), oldVoice.samples);
  const n = Math.min(watched.told.length, first.told.length);
  const lags = [-4, -3, -2, -1, 0, 1, 2, 3, 4];
  const lag = lags.reduce((a, b) =>
    shifted(watched.aperture, watched.told, b) > shifted(watched.aperture, watched.told, a) ? b : a,
  );
  const old = leftOver(watched.aperture.slice(0, n), first.told.slice(0, n), watched.told.slice(0, n));
  const oldChin = leftOver(watched.chin.slice(0, n), first.told.slice(0, n), watched.told.slice(0, n));
  const shut = watched.aperture.filter((_, i) => (watched.told[i] as number) < 0.005);
  await sheet(join(outDir, 'lip-sync.mp4'), join(outDir, 'lip-sync.png'));
  const stages = result.stages.map(
    ({ name, milliseconds }) => `${name} ${(milliseconds / Number(result.details.frames)).toFixed(1)}`,
  );
  return [
    goal(
      'aperture seen against command, r (silent face)',
      correlation(first.aperture, first.told).toFixed(3),
      '≥ 0.9',
      correlation(first.aperture, first.told) >= 0.9,
    ),
    goal(
      'aperture seen against command, r (talking face)',
      correlation(watched.aperture, watched.told).toFixed(3),
      '≥ 0.9',
      correlation(watched.aperture, watched.told) >= 0.9,
    ),
    goal('lag seen', `${lag} frames`, '≤ 1', Math.abs(lag) <= 1),
    goal('old motion left in the aperture', percent(old), '≤ 15 %', Math.abs(old) <= 0.15),
    row('old motion left in the chin', percent(oldChin)),
    row('aperture seen while closed', `${figure(shut.reduce((a, b) => a + b, 0) / shut.length)} IOD`),
    {
      ...goal('720p', `${figure(fps)} fps`, '≥ 25 fps', fps >= 25),
      peer: `${figure(codec)} fps (ffmpeg alone)`,
      ratio: (fps / codec).toFixed(2),
    },
    {
      ...row('CPU time a frame, all processes', `${figure(cpu)} ms`),
      peer: `${figure(codecCpu)} ms (ffmpeg alone)`,
      ratio: (cpu / codecCpu).toFixed(2),
    },
    row('milliseconds a frame', stages.join(', ')),
  ];
}

async function sound(
  media: Media,
  path: string,
  voiceId: string,
  script: string,
): Promise<{ path: string; samples: Float32Array; seconds: number }> {
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(tools.reason);
  const { signal } = new AbortController();
  await speakScript({ script, voiceId, path, directory: dirname(path), tools, signal });
  const pieces: Float32Array[] = [];
  for await (const piece of media.decodeAudio(path, { sampleRate: SAMPLE_RATE, signal })) pieces.push(piece);
  const samples = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    samples.set(piece, at);
    at += piece.length;
  }
  return { path, samples, seconds: samples.length / SAMPLE_RATE };
}

async function decoded(media: Media, path: string) {
  const { signal } = new AbortController();
  return media.decodeVideo(path, await media.probe(path, 'video', signal), { signal });
}

interface Rate {
  readonly fps: number;
  /** CPU time per frame, of this process and its children, in ms. */
  readonly cpuMs: number;
}

/** Measures ffmpeg alone, which decodes a clip and encodes it again as the media layer does. */
async function codecRate(ffmpeg: string, from: string, to: string, seconds: number): Promise<Rate> {
  const meter = startMeter();
  const codec = ['-c:v', 'libx264', '-preset', 'veryfast', '-crf', '19', '-bf', '0', '-threads', '2'];
  const input = ['-threads', '2', '-i', from, '-t', String(seconds), '-an'];
  await run(ffmpeg, ['-v', 'error', '-y', '-nostdin', ...input, ...codec, to]);
  return meter(Math.ceil(seconds * 25 - 1e-6));
}

function startMeter(): (frames: number) => Rate {
  const [start, cpu] = [performance.now(), cpuMs()];
  return (frames) => ({
    fps: (1000 * frames) / (performance.now() - start),
    cpuMs: (cpuMs() - cpu) / frames,
  });
}

/** Returns the CPU time in ms that this process and its ended children have used; NaN except on Linux. */
function cpuMs(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // User and system time, of the process and of its children, are in hundredths of a second.
    return 10 * [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0);
  } catch {
    return Number.NaN;
  }
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] as number;
}

/**
 * Returns how much of the old motion is seen per unit of the new one: the ratio of their coefficients in a
 * regression.
 */
function leftOver(seen: readonly number[], old: readonly number[], fresh: readonly number[]): number {
  const [so, sf, of] = [correlation(seen, old), correlation(seen, fresh), correlation(old, fresh)];
  return (so - sf * of) / spread(old) / ((sf - so * of) / spread(fresh));
}

function spread(values: readonly number[]): number {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

async function sheet(video: string, to: string): Promise<void> {
  const filter = "crop=430:430:400:0,scale=240:-1,select='not(mod(n,4))',tile=8x4";
  await run('ffmpeg', ['-v', 'error', '-y', '-i', video, '-vf', filter, '-frames:v', '1', to]);
}
