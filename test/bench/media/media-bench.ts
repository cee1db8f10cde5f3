import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createMedia, findMediaTools, type MediaTools, type OpenMedia } from '@semblance/media/media';
import { openLike } from '@semblance/media/open-like';
import { figure, limitRow, type Row, ratioRow, type Section, unmeasuredRow } from '../lib/section.ts';

const run = promisify(execFile);
const TURNS = 3;
const THREADS = 2;
const PORTRAIT = join(import.meta.dirname, '../../../media/grace_hopper.jpg');

/**
 * Compares the media layer with ffmpeg alone, to measure the cost of pipes, timestamps and the measuring of the
 * result.
 */
export async function runMediaBench({ say }: { readonly say: (line: string) => void }): Promise<Section> {
  const tools = await findMediaTools();
  const title = 'Media';
  if (!tools.available) return { title, rows: [unmeasuredRow('video through our pipes', '', tools.reason)] };
  const dir = await mkdtemp(join(tmpdir(), 'semblance-bench-media-'));
  const media = createMedia({ tools, threads: THREADS });
  try {
    const rows: Row[] = [];
    for (const [name, size, frames] of [
      ['720p', '1280x720', 240],
      ['1080p', '1920x1080', 120],
    ] as const) {
      say(`media: ${name}`);
      rows.push(...(await compare(tools, media, dir, { name, size, frames })));
    }
    say('media: memory');
    rows.push(...(await memory(tools, media, dir)));
    return {
      title,
      rows,
      notes: [
        `Best of ${TURNS} turns each. A portrait in slow motion at 30 frames a second, H.264; decoder and encoder have ${THREADS} threads each on both sides, and the encoder the same settings.`,
        'Ours counts everything a render needs: looking into the file, frames in and out of this process, sound, the index at the front, and decoding the result once more to measure it.',
        `Child processes have ${tools.isolation.missing.length === 0 ? 'all walls' : `no wall for ${tools.isolation.missing.map(({ wall }) => wall).join(', ')}`}; ffmpeg ${tools.version}.`,
      ],
    };
  } finally {
    await media.close();
    await rm(dir, { recursive: true, force: true });
  }
}

interface Clip {
  readonly name: string;
  readonly size: string;
  readonly frames: number;
}

async function compare(tools: MediaTools, media: OpenMedia, dir: string, clip: Clip): Promise<Row[]> {
  const file = join(dir, `${clip.name}.mp4`);
  await makeClip(tools, file, clip);
  const alone = (...args: string[]) => run(tools.ffmpeg, ['-v', 'error', '-nostdin', '-y', ...args]);
  const threads = ['-threads', String(THREADS)];
  const encode = [
    '-c:v',
    'libx264',
    '-preset',
    'veryfast',
    '-crf',
    '19',
    '-bf',
    '0',
    ...threads,
    '-c:a',
    'copy',
  ];
  const decodeAlone = () => alone(...threads, '-i', file, '-map', '0:v', '-f', 'null', '-');
  const transcodeAlone = () =>
    alone(...threads, '-i', file, ...encode, '-movflags', '+faststart', join(dir, 'alone.mp4'));
  const decodeOurs = () => copy(media, file);
  const transcodeOurs = () => copy(media, file, join(dir, 'ours.mp4'));
  const best = { decodeAlone: 0, transcodeAlone: 0, decodeOurs: 0, transcodeOurs: 0 };
  const work = { decodeAlone, transcodeAlone, decodeOurs, transcodeOurs };
  for (let turn = 0; turn < TURNS; turn++) {
    // Both sides take turns, so that other work on the machine affects both.
    for (const name of Object.keys(best) as (keyof typeof best)[]) {
      const began = performance.now();
      await work[name]();
      best[name] = Math.max(best[name], (clip.frames * 1000) / (performance.now() - began));
    }
  }
  const peerName = 'ffmpeg alone';
  return [
    ratioRow({
      name: `${clip.name}: decode`,
      ours: best.decodeOurs,
      peer: best.decodeAlone,
      unit: 'frames/s',
      peerName,
      atLeast: 0.5,
    }),
    ratioRow({
      name: `${clip.name}: decode, encode, measure`,
      ours: best.transcodeOurs,
      peer: best.transcodeAlone,
      unit: 'frames/s',
      peerName,
      atLeast: 0.6,
    }),
  ];
}

async function makeClip(tools: MediaTools, file: string, { size, frames }: Clip): Promise<void> {
  const zoom = `zoompan=z=1+0.002*on:x=iw/4+on/4:y=ih/8:d=${frames}:s=${size}:fps=30`;
  const grain = 'noise=alls=6:allf=t';
  const sound = ['-f', 'lavfi', '-i', `sine=f=300:d=${frames / 30}`];
  const codecs = [
    '-c:v',
    'libx264',
    '-preset',
    'veryfast',
    '-crf',
    '20',
    '-pix_fmt',
    'yuv420p',
    '-c:a',
    'aac',
  ];
  await run(tools.ffmpeg, [
    '-v',
    'error',
    '-y',
    '-i',
    PORTRAIT,
    ...sound,
    '-vf',
    `${zoom},${grain}`,
    ...codecs,
    file,
  ]);
}

/** Reads a video. If `to` is given, writes the video there and measures it. Calls `each` now and then. */
async function copy(media: OpenMedia, from: string, to?: string, each?: () => Promise<void>): Promise<void> {
  const { signal } = new AbortController();
  const info = await media.probe(from, 'video', signal);
  const { width, height, endUs } = info.video;
  const writer = to && (await openLike(media, { path: from, ...info }, { path: to, width, height, signal }));
  for await (const frame of media.decodeVideo(from, info, { signal })) {
    if (writer) await writer.write(frame);
    if (each && frame.index % 50 === 49) await each();
  }
  if (!writer) return;
  await writer.finish(endUs);
  await media.measure(to, signal);
}

async function memory(tools: MediaTools, media: OpenMedia, dir: string): Promise<Row[]> {
  const peaks: { ours: number; children: number }[] = [];
  for (const seconds of [10, 10, 60]) {
    const file = join(dir, `${seconds}.mp4`);
    await makeClip(tools, file, { name: '', size: '320x240', frames: seconds * 30 });
    const peak = { ours: 0, children: 0 };
    await copy(media, file, join(dir, 'out.mp4'), async () => {
      peak.ours = Math.max(peak.ours, process.memoryUsage.rss() / 2 ** 20);
      peak.children = Math.max(peak.children, await largestChildMib());
    });
    peaks.push(peak);
  }
  // The first run only brings this process to its working size.
  const [, short, long] = peaks as [(typeof peaks)[0], (typeof peaks)[0], (typeof peaks)[0]];
  const row = (name: string, from: number, to: number, limit: number): Row => ({
    ...limitRow({ name, ours: to - from, limit, unit: 'MiB' }),
    peer: `${figure(from)} → ${figure(to)} MiB`,
  });
  return [
    row('memory of this process, 60 s against 10 s', short.ours, long.ours, 32),
    row('memory of the largest child, 60 s against 10 s', short.children, long.children, 8),
  ];
}

async function largestChildMib(): Promise<number> {
  let most = 0;
  for (const pid of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(pid)) continue;
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    if (!status.includes(`\nPPid:\t${process.pid}\n`)) continue;
    most = Math.max(most, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  }
  return most;
}
