import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createMedia, findMediaTools, type MediaOptions, type OpenMedia } from '@semblance/media/media';
import { openLike } from '@semblance/media/open-like';
import type { MediaTools } from '@semblance/media/tools';
import type { VideoFile, VideoFrame, WrittenVideo } from '@semblance/media/types';

const run = promisify(execFile);

/** @throws Error that says what to install */
export async function mediaToolsForTests(): Promise<MediaTools> {
  const tools = await findMediaTools();
  if (!tools.available) throw new Error(`these tests need the Debian package ffmpeg: ${tools.reason}`);
  return tools;
}

/** Media layer with a folder for clips; `close` removes both. */
export interface MediaRig {
  readonly dir: string;
  readonly tools: MediaTools;
  readonly media: OpenMedia;
  readonly signal: AbortSignal;
  /** Creates another layer with other options; it is closed with the rig. */
  withOptions(options: Partial<MediaOptions>): OpenMedia;
  path(name: string): string;
  /** Makes a file with ffmpeg; `args` precede its name. The rig adds none of the options of the layer under test. */
  make(name: string, args: string): Promise<string>;
  /** Reads all frames of a file. */
  frames(path: string, size?: { width: number; height: number }): Promise<VideoFrame[]>;
  /** Reads all samples of a file. */
  samples(path: string, sampleRate: number): Promise<Float32Array>;
  /** Decodes a video and writes it again with its sound. The decoded content of the copy equals what was written. */
  copy(from: string, to: string): Promise<{ info: VideoFile; written: WrittenVideo }>;
  /** Returns ffprobe's report as JSON. */
  ffprobe(path: string, ...args: string[]): Promise<Probe>;
  files(): Promise<string[]>;
  close(): Promise<void>;
}

export interface Probe {
  readonly streams: Record<string, string | number | undefined>[];
  readonly format: Record<string, string>;
  readonly packets: Record<string, string | number>[];
  readonly frames: Record<string, string | number>[];
}

export async function openMediaRig(options: Omit<MediaOptions, 'tools'> = {}): Promise<MediaRig> {
  const tools = await mediaToolsForTests();
  const dir = await mkdtemp(join(tmpdir(), 'semblance-media-'));
  const media = createMedia({ tools, ...options });
  const others: OpenMedia[] = [];
  const { signal } = new AbortController();
  const path = (name: string) => join(dir, name);
  return {
    dir,
    tools,
    media,
    signal,
    path,
    withOptions(other) {
      const made = createMedia({ tools, ...other });
      others.push(made);
      return made;
    },
    async make(name, args) {
      const words = args.match(/"[^"]*"|\S+/g)?.map((word) => word.replaceAll('"', '')) ?? [];
      await run(tools.ffmpeg, ['-v', 'error', '-nostdin', '-y', ...words, path(name)], { cwd: dir });
      return path(name);
    },
    async frames(from, size) {
      const info = await media.probe(from, 'video', signal);
      return all(media.decodeVideo(from, info, { signal, ...(size ? { size } : {}) }));
    },
    async samples(from, sampleRate) {
      const chunks = await all(media.decodeAudio(from, { sampleRate, signal }));
      const whole = new Float32Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
      let at = 0;
      for (const chunk of chunks) {
        whole.set(chunk, at);
        at += chunk.length;
      }
      return whole;
    },
    async copy(from, to) {
      const info = await media.probe(from, 'video', signal);
      const { width, height, endUs } = info.video;
      const writer = await openLike(media, { path: from, ...info }, { path: to, width, height, signal });
      for await (const frame of media.decodeVideo(from, info, { signal })) await writer.write(frame);
      const written = await writer.finish(endUs);
      const decoded = await media.measure(to, signal);
      if (decoded.frames !== written.frames || decoded.durationMs !== written.durationMs)
        throw new Error(`written ${JSON.stringify(written)}, decoded ${JSON.stringify(decoded)}`);
      return { info, written };
    },
    async ffprobe(file, ...args) {
      const { stdout } = await run(tools.ffprobe, ['-v', 'error', '-of', 'json', ...args, file], {
        maxBuffer: 64 << 20,
      });
      return JSON.parse(stdout) as Probe;
    },
    files: async () => (await readdir(dir)).sort(),
    async close() {
      for (const other of [media, ...others]) await other.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Collects all values in an array. */
export async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

/** Returns an ffmpeg source of grey frames whose brightness is their number: frame n has luma 20 + 6n. */
export const numberedFrames = (options: { frames: number; rate?: string; size?: string }) =>
  `-f lavfi -i "nullsrc=s=${options.size ?? '64x48'}:r=${options.rate ?? '25'},` +
  `geq=lum=20+6*mod(N\\,36):cb=128:cr=128,trim=end_frame=${options.frames}"`;

/** Returns the number of a frame of {@link numberedFrames}. */
export const numberOf = (frame: Pick<VideoFrame, 'data'>) =>
  Math.round(((frame.data[100] as number) - 20) / 6);

/** Returns an ffmpeg source with a white flash and a beep of a tenth of a second, once per second, first at 0.5 s. */
export const flashes = (seconds: number, rate = '25', size = '64x48') =>
  `-f lavfi -i "color=black:s=${size}:r=${rate}:d=${seconds},geq=lum=if(between(mod(T\\,1)\\,0.499\\,0.599)\\,235\\,16):cb=128:cr=128"`;
export const beeps = (seconds: number, sampleRate = 48_000) =>
  `-f lavfi -i "aevalsrc=0.5*sin(2*PI*1000*t)*between(mod(t\\,1)\\,0.5\\,0.6):d=${seconds}:s=${sampleRate}"`;

/** Returns the times in seconds at which flashes begin. */
export function flashTimes(frames: readonly VideoFrame[]): number[] {
  const bright = (frame: VideoFrame | undefined) => (frame?.data[200] ?? 0) > 120;
  return frames.filter((frame, i) => bright(frame) && !bright(frames[i - 1])).map(({ ptsUs }) => ptsUs / 1e6);
}

/** Returns the times in seconds at which beeps begin. */
export function beepTimes(samples: Float32Array, sampleRate: number): number[] {
  const times: number[] = [];
  let quietSince = -1;
  for (const [i, sample] of samples.entries()) {
    if (Math.abs(sample) < 0.1) continue;
    if (i - quietSince > sampleRate / 10) times.push(i / sampleRate);
    quietSince = i;
  }
  return times;
}
