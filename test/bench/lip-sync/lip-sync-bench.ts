import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SAMPLE_RATE } from '../../../gpu-agent/engines/builtin/lip-sync/audio/log-mel.ts';
import { renderLipSync } from '../../../gpu-agent/engines/builtin/lip-sync/lip-sync.ts';
import { watchMouth } from '../../../gpu-agent/engines/builtin/lip-sync/testing/watch-mouth.ts';
import { disturb, music } from '../../../gpu-agent/engines/builtin/lip-sync/training/augment.ts';
import { heldOutSet } from '../../../gpu-agent/engines/builtin/lip-sync/training/corpus.ts';
import {
  correlation,
  type Figures,
  measure,
  posesOf,
  shifted,
} from '../../../gpu-agent/engines/builtin/lip-sync/training/measure.ts';
import { normal, seeded } from '../../../gpu-agent/engines/builtin/lip-sync/training/random.ts';
import { speak } from '../../../gpu-agent/engines/builtin/lip-sync/training/speech.ts';
import { wavFile } from '../../../gpu-agent/engines/builtin/lip-sync/training/wav.ts';
import { FaceFinder } from '../../../gpu-agent/engines/builtin/vision/face-finder.ts';
import { openSession } from '../../../gpu-agent/engines/models/session.ts';
import { createMedia, findMediaTools } from '../../../gpu-agent/media/media.ts';
import type { Media } from '../../../gpu-agent/media/types.ts';
import { type BenchContext, figure, type Row, type Section } from '../lib/section.ts';
import { humanSpeech } from './human-speech.ts';

const run = promisify(execFile);
const STILL = join(import.meta.dirname, '..', '..', '..', 'media', 'astronaut.png');
/** A 720p picture of a head, 300 pixels wide, that leans and nods, with the noise of a camera. */
const HEAD = [
  'scale=1280:1280',
  'rotate=0.06*sin(2*PI*t/3)',
  'crop=1280:720:0:60+20*sin(t)',
  'noise=alls=4:allf=t',
  'setsar=1',
].join(',');
const SECONDS = 10;
const OLD_WORDS =
  'My mother bought a big map of Panama. Papa laughed. We may have to open the box at home, before it rains.';
const NEW_WORDS =
  'Bob and Pam have a farm above the harbour, far from my home. Hot apples, please, and a bottle of warm milk for mama.';

/** The figures of Lip Sync: what the mouth does for a sound, and what is seen of that in the picture. */
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
    const rows = [...(await soundRows()), ...(await quietRows())];
    say('lip sync: picture');
    rows.push(...(await pictureRows(media, dir, outDir, say)));
    return {
      title: 'Lip Sync',
      rows,
      notes: [
        'Held-out voices are heard by no training; what their mouths should do follows from the phonemes that the synthesiser names.',
        'In recordings of people, phonemes are found by aligning synthetic speech of the same words, which is good to about 20 ms: their correlation is a lower bound.',
        `The contact sheet (lip-sync.png) and the clip (lip-sync.mp4) are in ${outDir}.`,
      ],
    };
  } finally {
    await media.close();
    await rm(dir, { recursive: true, force: true });
  }
}

async function soundRows(): Promise<Row[]> {
  const spoken = await heldOutSet();
  const rows = figureRows('held-out voices', await measure([...spoken.values()].flat()), true);
  for (const [voice, utterances] of spoken) {
    const { opennessR } = await measure(utterances);
    rows.push(row(`openness r, ${voice}`, opennessR.toFixed(3)));
  }
  for (const { name, recordings, seconds, figures } of await humanSpeech()) {
    rows.push(
      ...figureRows(`people, ${name} (${recordings} recordings, ${Math.round(seconds)} s)`, figures, false),
    );
  }
  return rows;
}

function figureRows(of: string, figures: Figures, goals: boolean): Row[] {
  const { opennessR, vowelToBilabial, vowel, bilabial, closedShare, wronglyClosed, lag } = figures;
  const rows = [goal(`openness r, ${of}`, opennessR.toFixed(3), goals ? '≥ 0.8' : '', opennessR >= 0.8)];
  if (Number.isFinite(vowelToBilabial)) {
    const text = `${vowel.toFixed(3)} : ${bilabial.toFixed(3)}`;
    rows.push(goal(`open vowel : bilabial, IOD, ${of}`, text, '≥ 3', vowelToBilabial >= 3));
    rows.push(row(`bilabials with lips closed, ${of}`, percent(closedShare)));
  }
  rows.push(row(`other sounds with lips closed, ${of}`, percent(wronglyClosed)));
  rows.push(goal(`lag, ${of}`, `${Math.round(lag * 1000)} ms`, '≤ 40 ms', Math.abs(lag) <= 0.04));
  return rows;
}

/** Silence, noise and music: how far the mouth is open, and how often it opens. */
async function quietRows(): Promise<Row[]> {
  const random = seeded(4242);
  const silence = new Float32Array(20 * SAMPLE_RATE);
  const sounds: [string, Float32Array][] = [
    ['silence', silence],
    ['noise', silence.map(() => 0.02 * normal(random))],
    ['music', disturb(music(20, random), random)],
  ];
  const rows: Row[] = [];
  for (const [name, samples] of sounds) {
    let open = false;
    let openings = 0;
    let sum = 0;
    const poses = await posesOf(samples);
    for (const { openness } of poses) {
      if (!open && openness > 0.05) openings++;
      open = openness > (open ? 0.02 : 0.05);
      sum += openness;
    }
    rows.push(
      row(
        `${name}: mean openness, openings a second`,
        `${(sum / poses.length).toFixed(4)} IOD, ${figure(openings / 20)}`,
      ),
    );
  }
  return rows;
}

async function pictureRows(
  media: Media,
  dir: string,
  outDir: string,
  say: (line: string) => void,
): Promise<Row[]> {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const { signal } = new AbortController();
  const path = (name: string): string => join(dir, name);
  const silent = path('silent.mp4');
  const input = ['-v', 'error', '-y', '-loop', '1', '-i', STILL, '-t', String(SECONDS), '-vf', HEAD];
  await run('ffmpeg', [...input, '-r', '25', '-c:v', 'libx264', '-crf', '17', '-pix_fmt', 'yuv420p', silent]);
  const oldVoice = await sound(path('old.wav'), 'slt', OLD_WORDS);
  const newVoice = await sound(path('new.wav'), 'awb', NEW_WORDS);
  const render = async (video: string, audio: string, to: string) => {
    const outputDir = await mkdtemp(join(dir, 'render-'));
    const start = performance.now();
    const result = await renderLipSync(
      { capability: 'lip-sync', inputs: { video, audio }, parameters: {}, outputDir },
      {
        finder,
        media: async () => media,
        cacheDir: undefined,
        signal,
        checkpoint: () => undefined,
        onProgress: () => undefined,
      },
    );
    const fps = (1000 * Number(result.details.frames)) / (performance.now() - start);
    await copyFile(result.outputPath, to);
    return { result, fps };
  };
  await render(silent, oldVoice.path, path('talking.mp4'));
  say('lip sync: the talking face speaks other words');
  const { result, fps } = await render(path('talking.mp4'), newVoice.path, join(outDir, 'lip-sync.mp4'));
  const codec = await codecRate(media, path('talking.mp4'), path('copy.mp4'), newVoice.seconds);
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
      peer: `${figure(codec)} fps (decode and encode)`,
      ratio: (fps / codec).toFixed(2),
    },
    row('milliseconds a frame', stages.join(', ')),
  ];
}

async function sound(
  path: string,
  name: string,
  words: string,
): Promise<{ path: string; samples: Float32Array; seconds: number }> {
  const [spoken] = await speak({ program: 'flite', name }, [words]);
  if (!spoken) throw new Error('flite said nothing');
  await writeFile(path, wavFile(spoken.samples, SAMPLE_RATE));
  return { path, samples: spoken.samples, seconds: spoken.samples.length / SAMPLE_RATE };
}

async function decoded(media: Media, path: string) {
  const { signal } = new AbortController();
  return media.decodeVideo(path, await media.probe(path, 'video', signal), { signal });
}

/** Frames a second of the media layer alone, decoding and encoding the same frames. */
async function codecRate(media: Media, from: string, to: string, seconds: number): Promise<number> {
  const { signal } = new AbortController();
  const info = await media.probe(from, 'video', signal);
  if (!info.video) throw new Error('no video');
  const { width, height, color, frameRate } = info.video;
  const start = performance.now();
  const writer = await media.openWriter({ path: to, width, height, color, frameRate, signal });
  let frames = 0;
  for await (const frame of media.decodeVideo(from, info, { signal })) {
    if (frame.ptsUs >= seconds * 1e6) break;
    await writer.write(frame);
    frames++;
  }
  await writer.finish(Math.min(seconds, info.durationSec) * 1e6);
  return (1000 * frames) / (performance.now() - start);
}

/** How much of the old motion is seen for each unit of the new: the ratio of their coefficients in a regression. */
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

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

function row(name: string, ours: string): Row {
  return { name, ours, peer: '', ratio: '', goal: '', met: '' };
}

function goal(name: string, ours: string, wanted: string, reached: boolean): Row {
  return { ...row(name, ours), goal: wanted, met: wanted === '' ? '' : reached ? 'met' : 'not met' };
}
