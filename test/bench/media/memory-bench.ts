import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { silentLogger } from '@semblance/common/logging';
import { startEngineProcess } from '@semblance/gpu-agent/engines/host/engine-process';
import { engineSource } from '@semblance/gpu-agent/engines/registry';
import { findMediaTools } from '@semblance/media/media';
import { processTree } from '@semblance/testkit/stack/processes';
import { residentBytesOf } from '../http/process-use.ts';
import { figure, type Section, unmeasuredRow } from '../lib/section.ts';

const run = promisify(execFile);
const MEDIA = join(import.meta.dirname, '../../../media');
const SHORT = 10;
const LONG = 120;
const GOAL = 1.2;
const EVERY_MS = 100;

/** Measures the peak memory of an engine's process, with its decoders and encoders, for a short and a long video. */
export async function runMemoryBench({ say }: { readonly say: (line: string) => void }): Promise<Section> {
  const title = 'Memory of a video';
  const name = `Video Swap at 480p, ${LONG} s against ${SHORT} s`;
  const goal = `≤ ${GOAL}`;
  const tools = await findMediaTools();
  if (!tools.available) return { title, rows: [unmeasuredRow(name, goal, tools.reason)] };
  const dir = await mkdtemp(join(tmpdir(), 'semblance-bench-memory-'));
  try {
    const clips = await makeClips(tools.ffmpeg, dir);
    const peaks = [];
    for (const [seconds, clip] of clips) {
      say(`memory: a video of ${seconds} s`);
      peaks.push(await peakOf(clip, seconds, join(dir, String(seconds))));
    }
    const [short, long] = peaks as [Peak, Peak];
    const ratio = long.mib / short.mib;
    return {
      title,
      rows: [
        {
          name,
          ours: `${figure(long.mib)} MiB`,
          peer: `${figure(short.mib)} MiB (${SHORT} s)`,
          ratio: ratio.toFixed(2),
          goal,
          met: ratio <= GOAL ? 'met' : 'not met',
        },
      ],
      notes: [
        `Resident memory of a fresh engine process and all it starts, summed, every ${EVERY_MS} ms (${short.samples} and ${long.samples} samples); pages that processes share count in each. The process alone: ${figure(short.alone)} and ${figure(long.alone)} MiB; warm, before the first frame: ${figure(short.warm)} and ${figure(long.warm)} MiB.`,
        `The longer one by thirds of its time: ${long.thirds.map(figure).join(', ')} MiB at most.`,
      ],
    };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface Peak {
  readonly mib: number;
  /** Peak of the process without its children, in MiB. */
  readonly alone: number;
  readonly warm: number;
  readonly samples: number;
  /** Peak in each third of the time, in MiB. */
  readonly thirds: readonly number[];
}

async function peakOf(video: string, seconds: number, dir: string): Promise<Peak> {
  await mkdir(join(dir, 'out'), { recursive: true });
  const engine = await startEngineProcess({
    setup: { source: engineSource('builtin'), options: { threads: 1 } },
    tempDir: dir,
    logger: silentLogger(),
    warmUpTimeoutMs: 120_000,
    cancelGraceMs: 1_000,
    signal: new AbortController().signal,
  });
  const warm = mibOf(engine.pid);
  let alone = 0;
  const samples: number[] = [];
  const timer = setInterval(() => {
    alone = Math.max(alone, mibOf(engine.pid));
    samples.push(processTree(engine.pid).reduce((sum, { pid }) => sum + mibOf(pid), 0));
  }, EVERY_MS);
  try {
    const inputs = { video, face: join(MEDIA, 'astronaut.png') };
    const { details, units } = await engine.render(
      { capability: 'face-swap', inputs, parameters: {}, outputDir: join(dir, 'out') },
      { signal: new AbortController().signal, onProgress: () => {} },
    );
    if (Math.abs(units.quantity - seconds) > 0.5 || !(Number(details.frames_with_swap) > seconds * 20))
      throw new Error(`no such video: ${JSON.stringify({ units, details })}`);
  } finally {
    clearInterval(timer);
    await engine.close();
  }
  const third = Math.ceil(samples.length / 3);
  const thirds = [0, 1, 2].map((n) => Math.max(0, ...samples.slice(n * third, (n + 1) * third)));
  return { mib: Math.max(...thirds), alone, warm, samples: samples.length, thirds };
}

const mibOf = (pid: number) => (residentBytesOf(pid) ?? 0) / 2 ** 20;

async function makeClips(ffmpeg: string, dir: string): Promise<[number, string][]> {
  const [short, long] = [join(dir, 'short.mp4'), join(dir, 'long.mp4')];
  const quiet = ['-v', 'error', '-nostdin'];
  await run(ffmpeg, [
    ...[...quiet, '-loop', '1', '-i', join(MEDIA, 'grace_hopper.jpg')],
    ...['-f', 'lavfi', '-i', 'sine=f=300', '-t', String(SHORT), '-r', '25'],
    ...['-vf', 'scale=-2:540,pad=900:540:-1:-1,crop=854:480:20+20*sin(n/9):30+20*cos(n/7)'],
    ...['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-c:a', 'aac', short],
  ]);
  await run(ffmpeg, [...quiet, '-stream_loop', String(LONG / SHORT - 1), '-i', short, '-c', 'copy', long]);
  return [
    [SHORT, short],
    [LONG, long],
  ];
}
