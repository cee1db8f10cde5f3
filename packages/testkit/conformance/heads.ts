import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { BadSample, Inputs } from '@semblance/gpu-agent/conformance/samples';
import { speakScript } from '@semblance/speech/speech';
import { findSpeechTools } from '@semblance/speech/tools';
import sharp from 'sharp';
import { mediaToolsForTests } from '../media/clips.ts';

/** Samples for engines that make videos of heads. They are small, yet long enough to be cancelled half-way. */

const MEDIA = join(import.meta.dirname, '../../../media');
const SECONDS = 0.8;
/** Text whose speech lasts about as long as the videos. */
const WORDS = 'Big map.';

interface Samples {
  readonly inputs: Inputs;
  readonly bad: readonly BadSample[];
}

/** Video Swap: a leaning head, and a portrait of another person. */
export async function headAndFace(dir: string): Promise<Samples> {
  const inputs = { video: await head(dir), face: await portrait(dir) };
  const noFace = 'face_not_detected' as const;
  return {
    inputs,
    bad: [
      { name: 'a video without a face', inputs: { ...inputs, video: await nobody(dir) }, code: noFace },
      { name: 'a face picture without a face', inputs: { ...inputs, face: await blank(dir) }, code: noFace },
      ...exchanged(inputs, 'video', 'face'),
    ],
  };
}

/** Lip Sync: a leaning head, and a few words. */
export async function headAndWords(dir: string): Promise<Samples> {
  const inputs = { video: await head(dir), audio: await words(dir) };
  return {
    inputs,
    bad: [
      {
        name: 'a video without a face',
        inputs: { ...inputs, video: await nobody(dir) },
        code: 'face_not_detected',
      },
      ...exchanged(inputs, 'video', 'audio'),
    ],
  };
}

/** Motion Transfer: a portrait, and a leaning head. */
export async function portraitAndHead(dir: string): Promise<Samples> {
  const inputs = { image: await portrait(dir), motion_video: await head(dir) };
  const code = 'face_not_detected' as const;
  return {
    inputs,
    bad: [
      {
        name: 'a motion video without a face',
        inputs: { ...inputs, motion_video: await nobody(dir) },
        code,
      },
      { name: 'a character without a face', inputs: { ...inputs, image: await blank(dir) }, code },
      ...exchanged(inputs, 'image', 'motion_video'),
    ],
  };
}

/** Avatar: a portrait; the parameter `script` holds its words. */
export async function portraitAlone(dir: string): Promise<Samples> {
  const inputs = { image: await portrait(dir) };
  return {
    inputs,
    bad: [
      { name: 'a portrait without a face', inputs: { image: await blank(dir) }, code: 'face_not_detected' },
      { name: 'a video as image', inputs: { image: await head(dir) }, code: 'unsupported_format' },
    ],
  };
}

/** Exchanges two inputs, so that neither is of the kind expected in its place. */
function exchanged(inputs: Inputs, one: string, other: string): BadSample[] {
  return [
    [one, other],
    [other, one],
  ].map(([role = '', from = '']) => ({
    name: `the ${from} as ${role}`,
    inputs: { ...inputs, [role]: inputs[from] ?? '' },
    code: 'unsupported_format',
  }));
}

async function portrait(dir: string): Promise<string> {
  const path = join(dir, 'portrait.png');
  await sharp(join(MEDIA, 'grace_hopper.jpg')).resize(320, 320, { fit: 'inside' }).png().toFile(path);
  return path;
}

async function blank(dir: string): Promise<string> {
  const path = join(dir, 'blank.png');
  await sharp({ create: { width: 320, height: 240, channels: 3, background: '#789' } })
    .png()
    .toFile(path);
  return path;
}

const head = (dir: string) =>
  video(
    join(dir, 'head.mp4'),
    ['-loop', '1', '-i', join(MEDIA, 'astronaut.png')],
    'scale=400:-2,rotate=0.05*sin(4*t):c=gray,crop=280:280:50:4+4*sin(3*t),setsar=1',
  );

const nobody = (dir: string) =>
  video(join(dir, 'nobody.mp4'), ['-f', 'lavfi', '-i', 'color=0x778899:s=160x120']);

async function video(path: string, source: readonly string[], filter = 'null'): Promise<string> {
  const { ffmpeg } = await mediaToolsForTests();
  const output = ['-r', '15', '-t', String(SECONDS), '-c:v', 'libx264', '-crf', '16', '-pix_fmt', 'yuv420p'];
  await promisify(execFile)(ffmpeg, [
    '-v',
    'error',
    '-nostdin',
    '-y',
    ...source,
    '-vf',
    filter,
    ...output,
    path,
  ]);
  return path;
}

async function words(dir: string): Promise<string> {
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(`these tests need the Debian package flite: ${tools.reason}`);
  const path = join(dir, 'words.wav');
  await speakScript({
    script: WORDS,
    voiceId: 'slt',
    path,
    directory: dir,
    tools,
    signal: AbortSignal.timeout(60_000),
  });
  return path;
}
