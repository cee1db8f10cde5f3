import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import {
  HANGING_WARM_UP,
  NO_WARM_UP,
  SECOND_TIME,
  TEST_ENGINE,
} from '@semblance/testkit/gpu-agent/test-engine';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EngineSource } from '../registry.ts';
import { createEnginePool, type EnginePool, type EnginePoolOptions } from './engine-pool.ts';
import { ENGINE_FLAGS, type EngineProcess, startEngineProcess } from './engine-process.ts';

const logger = silentLogger();
const idle = new AbortController().signal;
let dir: string;
let ends: (() => Promise<void>)[];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-engine-'));
  ends = [];
});
afterEach(async () => {
  for (const end of ends) await end();
  await rm(dir, { recursive: true, force: true });
});

async function startProcess(source: EngineSource = TEST_ENGINE, options = {}): Promise<EngineProcess> {
  const process = await startEngineProcess({
    setup: { source, options: { threads: 1 } },
    tempDir: dir,
    logger,
    warmUpTimeoutMs: 100_000,
    cancelGraceMs: 60_000,
    signal: idle,
    ...options,
  });
  ends.push(() => process.close());
  return process;
}

function startPool(options: Partial<EnginePoolOptions> = {}): EnginePool {
  const pool = createEnginePool({
    setup: { source: TEST_ENGINE, options: { threads: 1 } },
    processes: 2,
    rendersPerProcess: 1,
    tempDir: dir,
    logger,
    cancelGraceMs: 60_000,
    restartDelayMs: () => 10,
    ...options,
  });
  ends.push(() => pool.close());
  return pool;
}

let outputs = 0;
async function work(mode: string, parameters: Record<string, string> = {}) {
  const outputDir = join(dir, `out-${++outputs}`);
  await mkdir(outputDir);
  return {
    capability: 'face-swap-image' as const,
    inputs: {},
    parameters: { mode, ...parameters },
    outputDir,
  };
}
const quiet = { signal: idle, onProgress: () => {} };
const gone = (pid: number) => {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
};

describe('an engine process', () => {
  it('runs at a lower priority than the agent, in all its threads, and at the one that is asked for', async () => {
    const pool = startPool({ processes: 1, nice: 12 });
    await pool.firstReady();
    const pids = [(await startProcess()).pid, pool.warm[0]?.pid as number];
    const niceOf = async (pid: number) => {
      const tasks = await readdir(`/proc/${pid}/task`);
      // The nice value is field 19. The second field, the command in parentheses, may contain any character.
      const texts = tasks.map((task) => readFile(`/proc/${pid}/task/${task}/stat`, 'utf8'));
      return (await Promise.all(texts)).map((text) => text.slice(text.lastIndexOf(')') + 2).split(' ')[16]);
    };
    expect(new Set(await niceOf(pids[0] as number))).toEqual(new Set(['3']));
    expect(new Set(await niceOf(pids[1] as number))).toEqual(new Set(['12']));
  });

  it('has the flags of an engine, and none of the process that starts it', async () => {
    const engine = await startProcess();
    const [, ...args] = (await readFile(`/proc/${engine.pid}/cmdline`, 'utf8')).split('\0');
    expect(args.filter((arg) => arg.startsWith('--'))).toEqual([...ENGINE_FLAGS]);
  });

  it('renders, with progress, and says what it is', async () => {
    const engine = await startProcess();
    expect(engine.engine).toMatchObject({ name: 'test', version: '1' });
    const seen: [number, string, number?][] = [];
    const result = await engine.render(await work('ok'), {
      signal: idle,
      onProgress: (...args) => seen.push(args),
    });
    expect(result).toMatchObject({ contentType: 'image/png', units: { unit: 'image', quantity: 1 } });
    expect(seen).toEqual([
      [0.1, 'first', undefined],
      [0.9, 'last', 2],
    ]);
    expect(engine.busy).toBe(0);
  });

  it('thins what an engine says without end', async () => {
    const engine = await startProcess();
    let count = 0;
    const began = performance.now();
    await engine.render(await work('chatter'), { signal: idle, onProgress: () => count++ });
    expect(count).toBeGreaterThan(0);
    // The engine reports 100,000 times; twenty reports per second and the changes of stage arrive.
    expect(count).toBeLessThan((performance.now() - began) / 50 + 10);
  });

  it('tells a refusal of the input from a fault of the engine', async () => {
    const engine = await startProcess();
    await expect(engine.render(await work('refuse'), quiet)).rejects.toMatchObject({
      name: 'RenderError',
      code: 'face_not_detected',
      message: 'There is no face in the image.',
    });
    await expect(engine.render(await work('throw'), quiet)).rejects.toMatchObject({ code: 'engine_fault' });
    expect(engine.alive).toBe(true);
  });

  it.each([
    ['disk-full', 'engine_interrupted', 'the machine of the engine lacks something (ENOSPC, write)'],
    ['no-process', 'engine_interrupted', 'the machine of the engine lacks something (EAGAIN, spawn)'],
    ['no-file', 'engine_fault', "ENOENT: no such file or directory, open '/nowhere/file'"],
  ])('tells a machine that lacks something from an engine that errs (%s)', async (mode, code, message) => {
    const engine = await startProcess();
    await expect(engine.render(await work(mode), quiet)).rejects.toMatchObject({ code, message });
    expect((await engine.render(await work('ok'), quiet)).contentType).toBe('image/png');
  });

  it.each(['crash', 'exit', 'uncaught'])('fails the renders it held when it ends by %s', async (mode) => {
    const engine = await startProcess();
    const held = engine.render(await work('slow'), quiet);
    const both = Promise.allSettled([held, engine.render(await work(mode), quiet)]);
    for (const outcome of await both) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: 'engine_crashed', retryable: true },
      });
    }
    expect(engine.alive).toBe(false);
    expect(gone(engine.pid)).toBe(true);
    await expect(engine.render(await work('ok'), quiet)).rejects.toMatchObject({ code: 'engine_crashed' });
  });

  it('ends a cancelled render with the reason of the cancel and lives on', async () => {
    const engine = await startProcess();
    const controller = new AbortController();
    const running = engine.render(await work('slow'), { ...quiet, signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 50);
    await expect(running).rejects.toThrow('enough');
    expect(engine.alive).toBe(true);
    expect((await engine.render(await work('ok'), quiet)).contentType).toBe('image/png');
  });

  it.each(['ignore-cancel', 'block'])('is killed when a cancelled render goes on (%s)', async (mode) => {
    const engine = await startProcess(TEST_ENGINE, { cancelGraceMs: 300 });
    const controller = new AbortController();
    const begun = Promise.withResolvers<void>();
    const running = engine.render(await work(mode), {
      signal: controller.signal,
      onProgress: () => begun.resolve(),
    });
    await begun.promise;
    const began = performance.now();
    controller.abort(new Error('enough'));
    await expect(running).rejects.toThrow('enough');
    // The process is killed after its grace, long before the render would end by itself.
    expect(performance.now() - began).toBeGreaterThan(250);
    expect(performance.now() - began).toBeLessThan(30_000);
    expect(gone(engine.pid)).toBe(true);
  });

  it('reports an engine that cannot start, with its reason', async () => {
    const missing = { ...TEST_ENGINE, factory: 'nothing' };
    await expect(startProcess(NO_WARM_UP)).rejects.toThrow('test: the model is damaged');
    await expect(startProcess(missing)).rejects.toThrow('exports no nothing');
    await expect(startProcess({ ...TEST_ENGINE, module: 'file:///no/such/module.ts' })).rejects.toThrow(
      /no\/such/,
    );
  });

  it('does not wait for ever for an engine to warm up', async () => {
    await expect(startProcess(HANGING_WARM_UP, { warmUpTimeoutMs: 700 })).rejects.toThrow('did not warm up');
    const controller = new AbortController();
    const starting = startProcess(HANGING_WARM_UP, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('ending')), 100);
    await expect(starting).rejects.toThrow('ending');
  });

  it('is given no credentials', async () => {
    process.env.KUBECONFIG_TEST_SECRET = 'x';
    const engine = await startProcess();
    const { outputPath } = await engine.render(await work('environment'), quiet);
    delete process.env.KUBECONFIG_TEST_SECRET;
    const given = Object.keys(JSON.parse(await readFile(outputPath, 'utf8')));
    expect(given).toContain('TMPDIR');
    expect(given.filter((name) => /SECRET|KUBE|VITEST|TOKEN/.test(name))).toEqual([]);
  });

  it.each(['slow', 'block'])('does not outlive a killed agent (%s)', async (mode) => {
    const agent = spawn(process.execPath, [
      join(import.meta.dirname, '../../../packages/testkit/gpu-agent/lonely-engine.ts'),
      dir,
      mode,
    ]);
    const [line] = (await once(agent.stdout, 'data')) as [Buffer];
    const pid = Number(String(line).split('\n')[0]);
    expect(gone(pid)).toBe(false);
    agent.kill('SIGKILL');
    await once(agent, 'exit');
    await expect.poll(() => gone(pid)).toBe(true);
  });
});

describe('a pool of engine processes', () => {
  it('renders in as many processes as it has, and the next waits', async () => {
    const pool = startPool();
    await pool.firstReady();
    while (pool.capacity < 2) await delay(10);
    const controller = new AbortController();
    const slow = [await work('slow'), await work('slow')].map((each) =>
      pool.render(each, { ...quiet, signal: controller.signal }).catch((error: Error) => error.message),
    );
    const next = pool.render(await work('ok'), quiet);
    await delay(50);
    controller.abort(new Error('enough'));
    expect(await Promise.all(slow)).toEqual(['enough', 'enough']);
    expect((await next).contentType).toBe('image/png');
  });

  it('isolates renders: a crash fails one and the other ends well', async () => {
    const changes: number[] = [];
    let crashes = 0;
    const pool: EnginePool = startPool({
      onChange: () => changes.push(pool.capacity),
      onCrash: () => crashes++,
    });
    while (pool.capacity < 2) await delay(10);
    const controller = new AbortController();
    const other = pool.render(await work('slow'), { ...quiet, signal: controller.signal });
    await expect(pool.render(await work('crash'), quiet)).rejects.toMatchObject({ code: 'engine_crashed' });
    while (pool.capacity < 2) await delay(10);
    expect(changes).toEqual([1, 2, 1, 2]);
    expect(crashes).toBe(1);
    controller.abort(new Error('still running until now'));
    await expect(other).rejects.toThrow('still running until now');
  });

  it('lets a render wait for the process that is being restarted', async () => {
    const pool = startPool({ processes: 1 });
    await pool.firstReady();
    await expect(pool.render(await work('crash'), quiet)).rejects.toMatchObject({ code: 'engine_crashed' });
    expect((await pool.render(await work('ok'), quiet)).contentType).toBe('image/png');
  });

  it('does not let it wait for ever', async () => {
    const pool = startPool({
      processes: 1,
      setup: { source: NO_WARM_UP, options: { threads: 1 } },
      waitMs: 50,
    });
    await expect(pool.render(await work('ok'), quiet)).rejects.toMatchObject({ code: 'engine_unavailable' });
  });

  it('takes a waiting render back when it is cancelled', async () => {
    const pool = startPool({ processes: 1 });
    await pool.firstReady();
    const first = new AbortController();
    const running = pool.render(await work('slow'), { ...quiet, signal: first.signal });
    const second = new AbortController();
    const waiting = pool.render(await work('ok'), { ...quiet, signal: second.signal });
    second.abort(new Error('no longer wanted'));
    await expect(waiting).rejects.toThrow('no longer wanted');
    first.abort(new Error('enough'));
    await expect(running).rejects.toThrow('enough');
    expect((await pool.render(await work('ok'), quiet)).contentType).toBe('image/png');
  });

  it('keeps trying an engine that cannot start, and says why it cannot', async () => {
    const failures: number[] = [];
    const pool = startPool({
      processes: 1,
      setup: { source: SECOND_TIME, options: { threads: 1, settings: { folder: dir } } },
      restartDelayMs: (count) => {
        failures.push(count);
        expect(pool.trouble).toContain('the model is damaged');
        return 10;
      },
    });
    expect(pool.capacity).toBe(0);
    await pool.firstReady();
    expect(failures).toEqual([1]);
    expect(pool.trouble).toBeUndefined();
  });

  it('shares one process among renders when told so', async () => {
    const pool = startPool({ processes: 1, rendersPerProcess: 3 });
    await pool.firstReady();
    expect(pool.capacity).toBe(3);
    const controller = new AbortController();
    const options = { ...quiet, signal: controller.signal };
    const all = [await work('slow'), await work('slow'), await work('slow')].map((each) =>
      pool.render(each, options).catch((error: Error) => error.message),
    );
    await delay(100);
    controller.abort(new Error('enough'));
    expect(await Promise.all(all)).toEqual(['enough', 'enough', 'enough']);
  });

  it('gives every life of a process an empty folder for temporary files', async () => {
    const pool = startPool({ processes: 1 });
    await pool.firstReady();
    await pool.render(await work('temporary'), quiet);
    expect(await readdir(join(dir, 'test-0'))).toContain('left-behind');
    await pool.render(await work('crash'), quiet).catch(() => {});
    await pool.render(await work('ok'), quiet);
    expect(await readdir(join(dir, 'test-0'))).not.toContain('left-behind');
  });

  it('ends its processes when it is closed, also while they start', async () => {
    const pool = startPool({ setup: { source: HANGING_WARM_UP, options: { threads: 1 } } });
    const first = pool.firstReady();
    await delay(300);
    await pool.close();
    await expect(first).rejects.toThrow('closing');
    await expect(pool.render(await work('ok'), quiet)).rejects.toMatchObject({ code: 'engine_unavailable' });
  });
});
