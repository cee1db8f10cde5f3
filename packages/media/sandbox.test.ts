/** @module-tag ffmpeg */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { RenderError } from '@semblance/engine-api/engine';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { mediaToolsForTests, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { findIsolation } from './isolation.ts';
import { createMedia } from './media.ts';
import { type ChildLimits, startTool, type Tool } from './sandbox.ts';
import { findMediaTools, type MediaTools } from './tools.ts';

let dir: string;
let guard: Guard;
let tools: MediaTools;
let unshare: readonly string[];
beforeAll(async () => {
  tools = await mediaToolsForTests();
  ({ unshare } = await findIsolation('/nowhere/semblance-wall'));
});
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-sandbox-'));
  guard = createGuard({ graceMs: 200 });
});
afterEach(async () => {
  await guard.close();
  await rm(dir, { recursive: true, force: true });
});

/** Runs a shell script in place of ffmpeg. */
async function run(
  script: string,
  more: { limits?: Partial<ChildLimits>; signal?: AbortSignal; nice?: number } = {},
): Promise<Tool> {
  const ffmpeg = join(dir, 'ffmpeg');
  await writeFile(ffmpeg, `#!/bin/bash\n${script}\n`);
  await chmod(ffmpeg, 0o700);
  return startTool({
    // Behind walls a shell can start nothing; walls.test.ts tests them.
    tools: { ...tools, ffmpeg, isolation: { wall: undefined, unshare, stands: [], missing: [] } },
    program: 'ffmpeg',
    args: ['one', 'two words'],
    guard,
    limits: { cpuSec: 60, memoryMib: 512, fileMib: 1, ...more.limits },
    nice: more.nice,
    signal: more.signal ?? new AbortController().signal,
  });
}
async function output(script: string, more: Parameters<typeof run>[1] = {}): Promise<string> {
  const tool = await run(script, more);
  let text = '';
  for await (const chunk of tool.stdout.setEncoding('utf8')) text += chunk;
  await tool.exited;
  return text;
}

describe('a tool', () => {
  it('gets its arguments as they are, and of our environment only what it needs', async () => {
    process.env.SEMBLANCE_TEST_SECRET = 'secret';
    process.env.FFREPORT = 'file=/tmp/report';
    const text = await output('printf "%s|" "$@"; env; pwd').finally(() => {
      delete process.env.SEMBLANCE_TEST_SECRET;
      delete process.env.FFREPORT;
    });
    expect(text).toMatch(/^one\|two words\|/);
    expect(text).not.toMatch(/SECRET|FFREPORT/);
    expect(text).toMatch(/\n\/\n$/);
  });

  it('has the nice value that it is given, and else ours', async () => {
    expect(await output('nice; (nice)', { nice: 12 })).toBe('12\n12\n');
    expect(await output('nice')).toBe(`${getPriority()}\n`);
  });

  it('is in a group of its own, with limits, and nothing on standard input', async () => {
    const text = await output('ulimit -t -f -v -c; ps -o pgid= -p $$; echo $$; cat | wc -c', {
      limits: { cpuSec: 7, memoryMib: 300, fileMib: 2 },
    });
    expect(text).toMatch(/cpu time .* 7\n/);
    expect(text).toMatch(/file size .* 2048\n/);
    expect(text).toMatch(/virtual memory .* 307200\n/);
    expect(text).toMatch(/core file size .* 0\n/);
    const [group, pid, read] = text
      .trim()
      .split('\n')
      .slice(-3)
      .map((line) => Number(line));
    expect(group).toBe(pid);
    expect(read).toBe(0);
  });

  it('has no network where the kernel allows that', async () => {
    const devices = (await output('cat /proc/net/dev')).split('\n').slice(2).filter(Boolean);
    const names = devices.map((line) => line.split(':')[0]?.trim());
    if (unshare.length > 0)
      expect(names.filter((name) => name === 'eth0' || name?.startsWith('en'))).toEqual([]);
    else expect(names.length).toBeGreaterThan(0);
  });

  it('is killed when it takes more processor time than it may', async () => {
    const tool = await run('while :; do :; done', { limits: { cpuSec: 1 } });
    expect(await tool.exited).toMatchObject({ signal: 'SIGXCPU', ended: 'cpu' });
    const encoder = await startTool({
      tools,
      program: 'ffmpeg',
      guard,
      signal: new AbortController().signal,
      args: '-v error -f lavfi -i testsrc2=s=1280x720 -c:v libx264 -f null -'.split(' '),
      limits: { cpuSec: 1, memoryMib: 2_048, fileMib: 1 },
    });
    expect((await encoder.exited).ended).toBe('cpu');
  });

  it('that somebody else kills is told from one that we do', async () => {
    const killed = await run('sleep 100');
    process.kill(killed.pid, 'SIGKILL');
    expect(await killed.exited).toMatchObject({ signal: 'SIGKILL', ended: undefined });
    const ended = await run('sleep 100');
    ended.kill();
    expect(await ended.exited).toMatchObject({ signal: 'SIGKILL', ended: 'killed' });
    expect(await (await run('exit 3')).exited).toMatchObject({ code: 3, ended: undefined });
  });

  it('cannot write a file larger than it may', async () => {
    const exit = await (await run(`head -c 3000000 /dev/zero > ${dir}/large; echo "$?" >&2`)).exited;
    expect(exit.stderr).not.toBe('0\n');
  });

  it('is not started, or ended at once with all it started, when aborted', async () => {
    const controller = new AbortController();
    const tool = await run('sleep 100 & sleep 100 & echo $$; wait', { signal: controller.signal });
    const [first] = (await tool.stdout.take(1).toArray()) as Buffer[];
    expect(Number(first)).toBe(tool.pid);
    controller.abort(new Error('cancelled'));
    expect((await tool.exited).signal).toBe('SIGKILL');
    await expect
      .poll(() => {
        try {
          return process.kill(-tool.pid, 0);
        } catch {
          return 'gone';
        }
      })
      .toBe('gone');
    await expect(run('true', { signal: controller.signal })).rejects.toThrow('cancelled');
  });

  it('that the guard cannot be told of is ended before it begins', async () => {
    const refusing: Guard = { ...guard, watch: () => Promise.reject(new Error('spawn EMFILE')) };
    const ran = join(dir, 'ran');
    const started = startTool({
      tools,
      program: 'ffmpeg',
      args: ['-version', ran],
      guard: refusing,
      limits: { cpuSec: 60, memoryMib: 512, fileMib: 1 },
      signal: new AbortController().signal,
    });
    await expect(started).rejects.toMatchObject({ message: `cannot start ${tools.ffmpeg}` });
    const { stdout } = await promisify(execFile)('ps', ['-eo', 'args']);
    expect(stdout.split('\n').filter((line) => line.includes(ran))).toEqual([]);
  });

  it('may say as much as it likes: the end of it is kept', async () => {
    const exit = await (await run('head -c 5000000 /dev/zero | tr "\\0" x >&2; echo last >&2; exit 3'))
      .exited;
    expect(exit.code).toBe(3);
    expect(exit.stderr.length).toBeLessThanOrEqual(8_192);
    expect(exit.stderr).toMatch(/xlast\n$/);
  });
});

describe('the tools of a machine', () => {
  it('are told with version and isolation', async () => {
    expect(tools).toMatchObject({ available: true, version: expect.stringMatching(/\d/) });
    const media = createMedia({ tools });
    expect(media.status).toMatchObject({ ffmpeg: tools.version, walls: tools.isolation.stands });
    await media.close();
  });

  it.each([
    ['are missing', '', 'ffmpeg is not on PATH (Debian and Ubuntu: apt-get install ffmpeg)'],
    ['cannot run', '#!/bin/sh\nexit 1\n', 'does not run'],
    [
      'are too old',
      '#!/bin/sh\necho "ffmpeg version 4.4.2-0ubuntu Copyright"\necho "libavutil      56. 70.100 / 56. 70.100"\n',
      '4.4.2-0ubuntu; 5.1 or later is needed',
    ],
    ['have no H.264', '#!/bin/sh\necho "ffmpeg version n7.0 Copyright"\n', 'without the encoder libx264'],
  ])('are not there when they %s', async (_how, script, reason) => {
    if (script) {
      for (const name of ['ffmpeg', 'ffprobe']) await writeFile(join(dir, name), script, { mode: 0o700 });
    }
    vi.stubEnv('PATH', dir);
    const found = await findMediaTools();
    vi.unstubAllEnvs();
    expect(found).toMatchObject({ available: false, reason: expect.stringContaining(reason) });
  });
});

describe('hostile inputs', () => {
  let rig: Awaited<ReturnType<typeof openMediaRig>>;
  beforeAll(async () => {
    rig = await openMediaRig();
  });
  afterAll(() => rig.close());

  it('that need more memory than there is are refused', async () => {
    const file = await rig.make('large.mkv', '-f lavfi -i "testsrc=s=3840x2160:r=25:d=0.2" -c:v mjpeg');
    const poor = rig.withOptions({ memoryMib: 300 });
    const decode = async () => {
      const info = await poor.probe(file, 'video', rig.signal);
      for await (const _frame of poor.decodeVideo(file, info, { signal: rig.signal }));
    };
    await expect(decode()).rejects.toBeInstanceOf(RenderError);
    expect(await rig.frames(file, { width: 64, height: 36 })).toHaveLength(5);
  });

  it('are let go within a second of a cancellation', async () => {
    const file = await rig.make('long.mkv', '-f lavfi -i "testsrc2=s=640x480:r=25:d=8" -c:v mpeg4');
    const controller = new AbortController();
    const info = await rig.media.probe(file, 'video', rig.signal);
    const reason = new Error('cancelled');
    const took = await fairly(async (now) => {
      let abortedAt = 0;
      const decode = async () => {
        for await (const { index } of rig.media.decodeVideo(file, info, { signal: controller.signal })) {
          if (index === 5) {
            abortedAt = now();
            controller.abort(reason);
          }
        }
      };
      await expect(decode()).rejects.toBe(reason);
      return now() - abortedAt;
    });
    expect(took).toBeLessThan(1_000);
  });

  it('are not blamed for what kills their decoder, or gives it no time', async () => {
    const file = rig.path('long.mkv');
    const decode = async (media: typeof rig.media, first: () => Promise<void>) => {
      const info = await media.probe(file, 'video', rig.signal);
      for await (const { index } of media.decodeVideo(file, info, { signal: rig.signal }))
        if (index === 0) await first();
    };
    const decoders = async () => {
      const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid,args']);
      return stdout
        .split('\n')
        .filter((line) => line.includes(`file:${file}`))
        .map((line) => Number(line.trim().split(' ')[0]));
    };
    await expect(
      decode(rig.media, async () => {
        for (const pid of await decoders()) process.kill(pid, 'SIGKILL');
      }),
    ).rejects.toMatchObject({ code: 'engine_interrupted', retryable: true });
    await expect(
      decode(rig.withOptions({ stallSec: 0.5 }), async () => {
        for (const pid of await decoders()) process.kill(pid, 'SIGSTOP');
      }),
    ).rejects.toMatchObject({ code: 'engine_interrupted', retryable: true });
  });

  it('are let go when the reader leaves early', async () => {
    const file = rig.path('long.mkv');
    const info = await rig.media.probe(file, 'video', rig.signal);
    for await (const { index } of rig.media.decodeVideo(file, info, { signal: rig.signal }))
      if (index === 3) break;
    const { stdout } = await promisify(execFile)('ps', ['-eo', 'args']);
    expect(stdout.split('\n').filter((line) => line.includes(file))).toEqual([]);
  });
});
