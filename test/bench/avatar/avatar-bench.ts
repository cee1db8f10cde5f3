import { mkdtemp, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { FRAME_RATE, speakPortrait } from '@semblance/engine-builtin/internal/avatar/avatar';
import type { MouthCommand } from '@semblance/engine-builtin/internal/avatar/mouth-track';
import { toRgb } from '@semblance/engine-builtin/motion-transfer/face-tracker';
import { createMedia, findMediaTools } from '@semblance/media/media';
import type { Media, VideoFrame } from '@semblance/media/types';
import { BILABIALS, type Phone, VOWELS } from '@semblance/speech/sounds';
import { speakScript } from '@semblance/speech/speech';
import type { SpeechTools } from '@semblance/speech/speech-tools';
import { findSpeechTools } from '@semblance/speech/tools';
import { type Subject, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import {
  bestLag,
  correlation,
  measureVideo,
  type Series,
} from '@semblance/testkit/engine-builtin/motion/series';
import { cosine, dlibJudge, type Judge } from '@semblance/testkit/quality/judge';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { type BenchContext, figure, quantile, type Row, type Section } from '../lib/section.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const SIDE = 512;
const JUDGE_EVERY = 10;
const ENVELOPE_HZ = 100;
const OPEN_VOWELS: ReadonlySet<string> = new Set(['aa', 'ae', 'ao', 'aw', 'ay']);

const ENGLISH =
  'My father paid for a big map of Panama. Bob and Pam have a farm above the harbour, far from my home! ' +
  'Hot apples, please, and a bottle of warm milk. We found five very funny waffles, but papa laughed about them.';
const GERMAN =
  'Am Abend haben wir am Bahnhof Papa und Mama abgeholt. Bitte bring Milch, Brot und Butter mit, aber bald!';
const SPANISH = 'Mi padre compró pan y mapas para Ana. La abuela habla bajo, pero mamá baila bien.';

/** Portrait file, face in it, voice and script of each run. */
const RUNS = [
  [join(ROOT, 'media', 'grace_hopper.jpg'), 0, 'slt', ENGLISH],
  [join(ROOT, 'media', 'astronaut.png'), 0, 'rms', ENGLISH],
  [sample(6), 2, 'espeak-ng/de', GERMAN],
  [sample(5), 1, 'espeak-ng/es+f2', SPANISH],
] as const;

function sample(n: number): string {
  const demo = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
  return join(demo, `sample${n}.jpg`);
}

interface Told {
  readonly seconds: number;
  readonly mouth: MouthCommand;
  /** Commanded opening of the lips, in inter-ocular distances. */
  readonly open: number;
  readonly eyes: number;
  readonly yaw: number;
}

interface Parts {
  readonly media: Media;
  readonly finder: FaceFinder;
  readonly judge: Judge;
  readonly speech: SpeechTools;
  readonly directory: string;
  readonly outDir: string;
}

/** Measures the engine of Avatar alone, in this process. The mesh measures the face in the finished file. */
export async function runAvatarBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const [tools, speech] = await Promise.all([findMediaTools(), findSpeechTools()]);
  if (!tools.available) throw new Error(`no video can be made: ${tools.reason}`);
  if (!speech.available) throw new Error(`nothing can be spoken: ${speech.reason}`);
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const media = createMedia({ tools });
  const directory = await mkdtemp(join(tmpdir(), 'semblance-bench-avatar-'));
  const parts = { media, finder, judge: await dlibJudge(), speech, directory, outDir };
  const rows: Row[] = [];
  const sheet: Buffer[][] = [];
  try {
    for (const [file, place, voice, script] of RUNS) {
      const subject = await subjectOf(finder, file, place, 2 * SIDE);
      say(`avatar: ${subject.name} speaks with ${voice}`);
      const made = await measureRun(subject, voice, script, parts);
      rows.push(...made.rows);
      sheet.push(made.shots);
    }
  } finally {
    await media.close();
    await rm(directory, { recursive: true, force: true });
  }
  await writeSheet(sheet, join(outDir, 'avatar-contact-sheet.png'));
  return {
    title: 'Avatar',
    rows,
    notes: [
      `Portraits of ${SIDE}²; openness and lag are between what the lips were told and what the face mesh sees in the ` +
        'file, vowels and bilabials at the times the synthesiser gives, identity between portrait and frames by the ' +
        '128-d descriptor of face-api.',
      'The contact sheet (rest, lips closed, widest, roundest, f or v, blink, farthest turned) and the clips are in ' +
        `${outDir}.`,
    ],
  };
}

async function measureRun(
  subject: Subject,
  voiceId: string,
  script: string,
  { media, finder, judge, speech, directory, outDir }: Parts,
): Promise<{ rows: Row[]; shots: Buffer[] }> {
  const image = join(directory, 'portrait.png');
  const { width, height, data } = subject.picture;
  const side = Math.min(width, height);
  const left = Math.round((width - side) / 2);
  await sharp(data, { raw: { width, height, channels: 3 } })
    .extract({ left, top: 0, width: side, height: side })
    .resize(SIDE, SIDE)
    .png()
    .toFile(image);
  const signal = new AbortController().signal;
  const told: Told[] = [];
  const start = performance.now();
  const result = await speakPortrait(
    { image, script, voiceId, outputDir: directory },
    {
      media,
      finder,
      speech,
      signal,
      checkpoint: () => undefined,
      onProgress: () => undefined,
      onFrame: (seconds, mouth, pose, { rig }) => {
        const rest = rig.gaps[4] as number;
        told.push({
          seconds,
          mouth,
          yaw: pose.yaw,
          eyes: pose.expression.eyes?.[0] ?? 1,
          open: mouth.rest * rest + (1 - mouth.rest) * mouth.open,
        });
      },
    },
  );
  const wall = (performance.now() - start) / 1000;
  const path = join(directory, 'speech.wav');
  const spoken = await speakScript({ script, voiceId, path, directory, tools: speech, signal });
  const chosen = telling(told);
  const shots: Buffer[] = [];
  const identity: number[] = [];
  let still: Float32Array | undefined;
  const seen = await measureVideo(media, finder, result.outputPath, async (frame, face) => {
    for (const [place, index] of chosen.entries())
      if (index === frame.index) shots[place] = await thumbnail(frame);
    if (frame.index === 0) still = await judge.describe(whole(frame), face);
    if (still && frame.index % JUDGE_EVERY === 0)
      identity.push(cosine(still, await judge.describe(whole(frame), face)));
  });
  const [heard, said] = [await envelope(media, result.outputPath), await envelope(media, path)];
  await rm(path);
  await rename(result.outputPath, join(outDir, `avatar-${voiceId.replaceAll('/', '-')}.mp4`));
  const label = `${subject.name}, ${voiceId}`;
  const open = told.map((one) => one.open);
  const [vowel, bilabial] = [
    apertures(seen, spoken.phones, (s) => OPEN_VOWELS.has(s)),
    apertures(seen, spoken.phones, (s) => BILABIALS.has(s as never)),
  ];
  const lag = bestLag(open, seen.aperture);
  const offset = (1000 * bestLag(said, heard, 20)) / ENVELOPE_HZ;
  const vowels = vowelsOf(spoken.phones, heard.length);
  const told10ms = bestLag(vowels, heard, 20);
  const speed = result.units.quantity / wall;
  const r = correlation(open, seen.aperture);
  const eyes = correlation(
    told.map((one) => one.eyes),
    seen.eyes,
  );
  const row = (name: string, ours: string, goal = '', met = true): Row => ({
    name: `${label}: ${name}`,
    ours,
    peer: '',
    ratio: '',
    goal,
    met: goal === '' ? '' : met ? 'met' : 'not met',
  });
  return {
    shots,
    rows: [
      row('speed', `${figure(speed)} × real time`, '≥ 2', speed >= 2),
      row('openness, r', r.toFixed(3), '≥ 0.8', r >= 0.8),
      row(
        'open vowel : bilabial',
        `${vowel.toFixed(3)} : ${bilabial.toFixed(3)} IOD`,
        '≥ 3',
        vowel >= 3 * bilabial,
      ),
      row('lag of the mouth', `${lag} frames`, '≤ 1', Math.abs(lag) <= 1),
      row('sound in the file against the speech', `${offset} ms`, '≤ 40 ms', Math.abs(offset) <= 40),
      row(
        'loudness of the sound after the vowels told',
        `${(1000 * told10ms) / ENVELOPE_HZ} ms`,
        '≤ 40 ms',
        Math.abs(told10ms) <= 4,
      ),
      row('blinks, r', eyes.toFixed(3)),
      row(
        'identity, least cosine',
        quantile(identity, 0).toFixed(3),
        '≥ 0.85',
        quantile(identity, 0) >= 0.85,
      ),
      row('frames in which the face is lost', figure(seen.missing)),
    ],
  };
}

/** Returns the indices of frames that show extremes of the face's motion. */
function telling(told: readonly Told[]): number[] {
  const most = (of: (one: Told) => number): number =>
    told.reduce((best, one, i) => (of(one) > of(told[best] as Told) ? i : best), 0);
  const speaking = (value: (mouth: MouthCommand) => number) => (one: Told) =>
    (1 - one.mouth.rest) * value(one.mouth);
  return [
    0,
    most(speaking(({ closed }) => (closed ? 1 : 0))),
    most(({ open }) => open),
    most(speaking(({ round }) => round)),
    most(speaking(({ tuck, closed }) => (closed ? 0 : tuck))),
    most(({ eyes }) => -eyes),
    most(({ yaw }) => Math.abs(yaw)),
  ];
}

/** Returns the mean opening seen in the middle of the chosen sounds. */
function apertures(seen: Series, phones: readonly Phone[], which: (sound: string) => boolean): number {
  const values = phones.flatMap(({ sound, start, end }) => {
    if (sound === undefined || !which(sound)) return [];
    const index = Math.floor(((start + end) / 2) * FRAME_RATE);
    const value = seen.aperture[index];
    return value === undefined ? [] : [value];
  });
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Returns the loudness (RMS) of a file's sound, from the time at which its picture begins. */
async function envelope(media: Media, path: string): Promise<number[]> {
  const out: number[] = [];
  const sampleRate = 16_000;
  const hop = sampleRate / ENVELOPE_HZ;
  for await (const chunk of media.decodeAudio(path, { sampleRate, signal: new AbortController().signal })) {
    for (let i = 0; i + hop <= chunk.length; i += hop) {
      out.push(Math.sqrt(chunk.subarray(i, i + hop).reduce((sum, value) => sum + value * value, 0) / hop));
    }
  }
  return out;
}

/** Returns 1 where a vowel is spoken and 0 elsewhere, at the rate of the envelope. */
function vowelsOf(phones: readonly Phone[], count: number): number[] {
  const out = new Array<number>(count).fill(0);
  for (const { sound, start, end } of phones) {
    if (sound === undefined || !VOWELS.has(sound)) continue;
    out.fill(1, Math.round(start * ENVELOPE_HZ), Math.round(end * ENVELOPE_HZ));
  }
  return out;
}

function whole(frame: VideoFrame) {
  return toRgb(frame, { left: 0, top: 0, right: frame.width, bottom: frame.height }, 1);
}

function thumbnail(frame: VideoFrame): Promise<Buffer> {
  const { width, height, data } = whole(frame);
  return sharp(data, { raw: { width, height, channels: 3 } })
    .resize(300, 300)
    .png()
    .toBuffer();
}

async function writeSheet(rows: readonly Buffer[][], path: string): Promise<void> {
  const columns = Math.max(...rows.map((row) => row.length));
  await sharp({
    create: { width: columns * 300, height: rows.length * 300, channels: 3, background: '#202020' },
  })
    .composite(rows.flatMap((row, y) => row.map((input, x) => ({ input, left: x * 300, top: y * 300 }))))
    .png()
    .toFile(path);
}
