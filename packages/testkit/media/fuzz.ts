import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { RenderError } from '@semblance/engine-api/engine';
import type { OpenMedia } from '@semblance/media/media';
import { openLike } from '@semblance/media/open-like';
import { beeps, type MediaRig, numberedFrames } from './clips.ts';

/** Creates a generator of numbers in [0, 1) from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const EXTREMES = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_fffe, 0x0001_0000];

/** Damages a file as transfers, disks and people do; `other` lends parts of itself. */
export function mutate(file: Uint8Array, other: Uint8Array, random: () => number): Uint8Array {
  let bytes = Buffer.from(file);
  const below = (limit: number) => Math.floor(random() * limit);
  // Half of the damage hits the beginning and the end, where containers keep their indexes.
  const place = () => {
    const edge = Math.min(bytes.length, 4_096);
    const where = random();
    if (where < 0.35) return below(edge);
    return where < 0.5 ? bytes.length - edge + below(edge) : below(bytes.length);
  };
  for (let left = 1 + below(6); left > 0 && bytes.length > 16; left--) {
    const at = place();
    const length = 1 + below(Math.min(bytes.length - at, random() < 0.5 ? 16 : 4_096));
    switch (below(7)) {
      case 0:
        for (let i = 0; i < length; i++) if (random() < 0.1) bytes[at + i] = below(256);
        break;
      case 1:
        bytes[at] = (bytes[at] as number) ^ (1 << below(8));
        break;
      case 2:
        bytes.fill(random() < 0.5 ? 0 : 255, at, at + length);
        break;
      case 3:
        if (at + 4 <= bytes.length) bytes.writeUInt32BE(EXTREMES[below(EXTREMES.length)] as number, at);
        break;
      case 4:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
        break;
      case 5:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at, at + length), bytes.subarray(at)]);
        break;
      default: {
        const from = below(other.length);
        bytes = Buffer.concat([
          bytes.subarray(0, at),
          other.subarray(from, from + length),
          bytes.subarray(at),
        ]);
      }
    }
    if (random() < 0.05) bytes = bytes.subarray(0, 1 + below(bytes.length));
  }
  return bytes;
}

/** Creates small files of the usual kinds, to be damaged. */
export async function seedFiles(rig: MediaRig): Promise<Buffer[]> {
  const clip = `${numberedFrames({ frames: 12 })} ${beeps(0.6)}`;
  const made = [
    await rig.make('seed.mp4', `${clip} -c:v libx264 -c:a aac`),
    await rig.make(
      'seed-faststart.mov',
      `${clip} -c:v libx265 -x265-params log-level=error -c:a alac -movflags +faststart`,
    ),
    await rig.make('seed.webm', `${clip} -c:v libvpx-vp9 -b:v 200k -c:a libopus`),
    await rig.make('seed.mkv', `${clip} -c:v ffv1 -c:a flac`),
    await rig.make('seed.avi', `${clip} -c:v mpeg4 -c:a mp3`),
    await rig.make('seed.ts', `${clip} -c:v mpeg2video -c:a mp2`),
    await rig.make('seed.ogv', `${clip} -c:v libtheora -c:a libvorbis`),
  ];
  return Promise.all(made.map((path) => readFile(path)));
}

export type Outcome = 'rendered' | 'unsupported_format' | 'input_too_large';

/** Runs all operations of a render on one damaged file. @throws Error that names the wrong behaviour */
export async function tryFile(media: OpenMedia, dir: string, bytes: Uint8Array): Promise<Outcome> {
  const before = (await readdir(dir)).sort();
  const input = `${dir}/fuzzed`;
  const output = `${dir}/output.mp4`;
  await writeFile(input, bytes);
  const outcome = await render(media, input, output).catch((error: unknown) => error);
  await rm(input);
  await rm(output, { force: true });
  const left = (await readdir(dir)).filter((name) => !before.includes(name));
  if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
  if (!(outcome instanceof Error)) return outcome as Outcome;
  const refused = outcome instanceof RenderError ? outcome.code : undefined;
  if (refused === 'unsupported_format' || refused === 'input_too_large') return refused;
  throw outcome;
}

async function render(media: OpenMedia, input: string, output: string): Promise<Outcome> {
  const { signal } = new AbortController();
  const info = await media.probe(input, 'video', signal);
  // A fixed size keeps a file that claims a large one from delaying the others.
  const size = { width: 64, height: 48 };
  const writer = await openLike(media, { path: input, ...info }, { path: output, ...size, signal });
  try {
    let last = -1;
    let frames = 0;
    for await (const { ptsUs, data } of media.decodeVideo(input, info, { signal, size })) {
      if (ptsUs <= last) throw new Error(`a frame at ${ptsUs} after ${last}`);
      last = ptsUs;
      frames++;
      await writer.write({ ptsUs, data });
    }
    const written = await writer.finish(info.video.endUs);
    if (written.frames !== frames) throw new Error(`${written.frames} frames written of ${frames}`);
  } finally {
    await writer.abort();
  }
  return 'rendered';
}
