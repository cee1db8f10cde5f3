/** @module-tag python */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AttemptState, StartAttemptRequest } from '@semblance/proto/semblance/agent/v1/agent';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { createHarness, type Harness, until } from '@semblance/testkit/gpu-agent/harness';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startProgram } from '../conformance/program.ts';
import { type Subject, sidecar } from '../conformance/subject.ts';
import { sidecarSource } from './registry.ts';

const EXAMPLE = join(import.meta.dirname, '../../packages/engine-sidecar/python/examples/face_swap.py');
const ROUGH = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/rough_engine.py');
const SERVICE_TEST = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/service_test.py');
const SERVE_TEST = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/serve_test.py');
const PAGE = join(import.meta.dirname, '../../docs/guide/engine-author/engines.md');
const CLI = join(import.meta.dirname, '../conformance/cli.ts');
/** Time limit of the start, in ms: the first run installs packages. */
const START_MS = 300_000;
const idle = new AbortController().signal;
const quiet = () => {};

/**
 * Tells whether a process and all its threads have ended. The parent may not have reaped it. The first thread may
 * end before the others, which still hold the pipes open.
 */
async function hasEnded(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  return stat === undefined || (/\) Z /.test(stat) && threads.length <= 1);
}

describe('Python', () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-python-'));
    await pythonEnv();
  }, START_MS);
  afterAll(() => rm(dir, { recursive: true, force: true }));

  async function folder(name: string): Promise<string> {
    const path = join(dir, name);
    await mkdir(path);
    return path;
  }

  engineConformance({
    title: 'the example of a sidecar',
    // The test machine may stand still for a moment.
    works: [{ capability: 'face-swap-image', samples: (own) => portraits(own, 288), cancelMs: 5_000 }],
    async start(options) {
      const socket = join(options.dir, 'shared', 'engine.sock');
      await mkdir(join(options.dir, 'shared'));
      return sidecar(socket, [await pythonEnv(), EXAMPLE])(options);
    },
  });

  describe('the library', () => {
    let subject: Subject;
    let inputs: Record<string, string>;
    beforeAll(async () => {
      const shared = await folder('rough');
      const start = sidecar(join(shared, 'engine.sock'), [await pythonEnv(), ROUGH]);
      subject = await start({ dir, signal: AbortSignal.timeout(60_000) });
      const image = join(dir, 'image');
      await writeFile(image, 'an image');
      inputs = { image, face: image };
    });
    afterAll(() => subject?.close());

    let outputs = 0;
    async function render(mode: string, signal = idle, onProgress: () => void = quiet) {
      const outputDir = await folder(`rough-${++outputs}`);
      const work = { capability: 'face-swap-image' as const, inputs, parameters: { mode }, outputDir };
      return subject.render(work, { signal, onProgress });
    }

    it('fails the render whose process dies, and no other', async () => {
      const [died, other] = await Promise.allSettled([render('die'), render('ok')]);
      expect(died).toMatchObject({ status: 'rejected', reason: { name: 'EngineInterruptedError' } });
      expect(other).toMatchObject({ status: 'fulfilled', value: { details: { mode: 'ok' } } });
      expect((await Promise.all([render('ok'), render('ok')])).map(({ contentType }) => contentType)).toEqual(
        ['image/png', 'image/png'],
      );
    });

    it('interrupts the render that finds the card full, in a process that ends with it', async () => {
      const full = await render('full').catch((error: unknown) => error);
      expect(full).toMatchObject({ name: 'EngineInterruptedError' });
      const rendered = await Promise.all([render('ok'), render('ok')]);
      expect(rendered.map(({ contentType }) => contentType)).toEqual(['image/png', 'image/png']);
    });

    it('renders although its processes died while they had nothing to do', async () => {
      const rendered = await Promise.all([render('ok'), render('ok')]);
      const pids = new Set(rendered.map(({ details }) => Number(details?.pid)));
      for (const pid of pids) process.kill(pid, 'SIGKILL');
      for (const pid of pids) await expect.poll(() => hasEnded(pid)).toBe(true);
      const again = await Promise.all([render('ok'), render('ok')]);
      expect(again.map(({ contentType }) => contentType)).toEqual(['image/png', 'image/png']);
    });

    it('loses no process for good', async () => {
      await promisify(execFile)(await pythonEnv(), [SERVICE_TEST]);
    }, 120_000);

    it('takes no socket of another, leaves no process behind, and says in one line what is wrong', async () => {
      await promisify(execFile)(await pythonEnv(), [SERVE_TEST]);
    }, 240_000);

    it('ends a render that does not notice its cancel by ending its process', async () => {
      const controller = new AbortController();
      // Without the cancel the render would run for a minute.
      const hung = render('hang', controller.signal, () => controller.abort(new Error('enough')));
      await expect(hung).rejects.toThrow('enough');
      await expect(render('ok')).resolves.toMatchObject({ units: { unit: 'image', quantity: 1 } });
    });

    it('tells a refusal from an error, and says no more of an error than its kind', async () => {
      await expect(render('refuse')).rejects.toMatchObject({
        code: 'content_rejected',
        message: 'Not this one.',
      });
      const error = await render('raise').catch((reason: Error) => reason);
      expect(error).toMatchObject({ name: 'Error', message: expect.stringContaining('INTERNAL') });
      await expect(render('ok')).resolves.toBeDefined();
    });

    it('interrupts a render that an engine could not do this time, and loads the model again if asked', async () => {
      const both = async () =>
        (await Promise.all([render('ok'), render('ok')])).map(({ details }) => details);
      const before = await both();
      expect(before.map((details) => details?.worker).toSorted()).toEqual(['0', '1']);
      const interrupted = {
        name: 'EngineInterruptedError',
        message: expect.stringContaining('the card is full'),
      };
      await expect(render('interrupt')).rejects.toMatchObject(interrupted);
      const pids = async () => (await both()).map((details) => details?.pid).toSorted();
      expect(await pids()).toEqual(before.map((details) => details?.pid).toSorted());
      await expect(render('interrupt-and-reload')).rejects.toMatchObject(interrupted);
      const kept = (await pids()).filter((pid) => before.some((details) => details?.pid === pid));
      expect(kept).toHaveLength(1);
    });

    it('says no more than the agent takes, whatever an engine says', async () => {
      const refused = (mode: string) => render(mode).catch((error: Error) => error);
      expect(await refused('refuse-silently')).toMatchObject({
        code: 'content_rejected',
        message: 'The engine refused this input.',
      });
      expect(await refused('refuse-at-length')).toMatchObject({
        code: 'content_rejected',
        message: '🙂'.repeat(512),
      });
      const told: [string, number | undefined][] = [];
      const { stages, details, findings } = await render('talk', idle, ((
        _fraction: number,
        stage: string,
        left?: number,
      ) => {
        told.push([stage, left]);
      }) as () => void);
      expect(stages).toHaveLength(30);
      expect(stages.slice(0, 3).map(({ name }) => name)).toEqual(['work', 'begin', 'frame 0']);
      expect(stages.at(-1)?.name).toBe('other');
      expect(told.slice(-2)).toEqual([
        ['work', 1],
        ['🙂'.repeat(32), undefined],
      ]);
      expect(told.filter(([, left]) => left !== undefined)).toHaveLength(1);
      expect(Object.keys(details)).toHaveLength(32);
      expect(Object.keys(details)[0]).toHaveLength(64);
      expect(new Set(Object.values(details))).toEqual(new Set(['🙂'.repeat(128)]));
      expect(findings?.faces).toMatchObject({ found: 9, changed: 1 });
      const hint = { code: 'face_small', message: '🙂'.repeat(150), input: 'image' };
      expect(findings?.hints).toEqual(Array(8).fill(hint));
      const model = { name: 'm'.repeat(64), sha256: 'ab'.repeat(32), licence: '🙂'.repeat(100) };
      expect(findings?.models).toEqual(Array(16).fill(model));
    });

    const inspect = (mode: string, signal = idle) =>
      subject.inspect?.({ capability: 'face-swap-image', inputs, parameters: { mode } }, signal);

    it('tells what an engine found out, with a refusal too', async () => {
      await expect(render('refuse-with-findings')).rejects.toMatchObject({
        code: 'content_rejected',
        findings: { faces: { found: 2, changed: 0, left: [{ reason: 'bystander', count: 2 }] }, hints: [] },
      });
      await expect(render('refuse-with-nonsense')).rejects.toMatchObject({
        code: 'content_rejected',
        findings: undefined,
      });
      expect(await render('ok')).not.toHaveProperty('findings');
    });

    it('lets an engine look at pictures without a place to write to', async () => {
      const hint = { code: 'face_small', message: expect.stringMatching(/small/), input: 'face' };
      expect(await inspect('ok')).toEqual({ hints: [hint] });
      await expect(inspect('refuse')).rejects.toMatchObject({ code: 'face_not_detected' });
      for (const mode of ['writes', 'nothing']) await expect(inspect(mode)).rejects.toThrow(/INTERNAL/);
      const gone = new AbortController();
      const waiting = inspect('waits', gone.signal);
      gone.abort(new Error('gone'));
      await expect(waiting).rejects.toThrow('gone');
      expect(await Promise.all([inspect('ok'), inspect('ok')])).toHaveLength(2);
    });

    it('measures the stages, and tells the time that is left', async () => {
      const left: unknown[] = [];
      const { stages } = await render('ok', idle, ((_fraction: number, _stage: string, seconds?: number) => {
        left.push(seconds);
      }) as () => void);
      expect(stages.map(({ name }) => name)).toEqual(['work', 'begin', 'wait']);
      expect(stages.at(-1)?.milliseconds).toBeGreaterThan(900);
      expect(left.at(-1)).toBeCloseTo(0.05);
    });
  });

  describe('an agent with a sidecar', () => {
    let harness: Harness;
    beforeAll(async () => {
      harness = await createHarness();
    });
    afterAll(() => harness?.close());

    it('offers and renders what the sidecar does, and withdraws it while that is away', async () => {
      const socket = join(await folder('agent'), 'engine.sock');
      const command = [await pythonEnv(), EXAMPLE];
      let program = startProgram(command, socket);
      const agent = await harness.agent({ engines: [sidecarSource(socket, 0)] });
      const offered = async () => (await agent.resource())?.status?.engines ?? [];
      expect(await offered()).toEqual([
        {
          name: 'opencv-swap',
          version: '1',
          capabilities: [{ name: 'face-swap-image', slots: 1, memoryMib: 700 }],
        },
      ]);
      const bring = async (side: number) => {
        const files = (await portraits(dir, side)).inputs;
        for (const [role, path] of Object.entries(files)) {
          harness.store.objects.set(`/in/${role}`, await readFile(path));
        }
      };
      await bring(288);
      const watch = agent.watch();
      async function swap() {
        const base = agent.request('');
        let output = Buffer.alloc(0);
        const path = `/out/${base.ref?.jobUid}`;
        harness.store.on(path, async (request, response) => {
          const chunks: Buffer[] = [];
          for await (const chunk of request) chunks.push(chunk as Buffer);
          output = Buffer.concat(chunks);
          response.writeHead(200).end();
        });
        const request = StartAttemptRequest.fromPartial({ ...base, parameters: {} });
        await agent.start(request);
        return { request, ended: async () => ({ status: await watch.ended(request.ref), output }) };
      }

      const { status, output } = await (await swap()).ended();
      expect(status).toMatchObject({
        state: AttemptState.ATTEMPT_STATE_SUCCEEDED,
        output: { unit: 'image', milliUnits: 1000n, engine: 'opencv-swap 1' },
      });
      expect(status.output?.stages.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['fetch', 'decode', 'detect', 'swap', 'encode', 'store']),
      );
      expect(await sharp(output).metadata()).toMatchObject({ format: 'png', width: 288, height: 288 });

      // Large inputs keep the engine at work for longer than the cancel takes to arrive.
      await bring(3_000);
      const second = await swap();
      await watch.until(second.request.ref, ({ stage }) => stage === 'detect');
      program.kill();
      expect((await second.ended()).status.state).toBe(AttemptState.ATTEMPT_STATE_INTERRUPTED);
      await until(async () => (await offered()).length === 0, 'the capability is withdrawn');
      expect((await agent.resource())?.status?.slots).toBe(0);
      expect(await agent.leftovers()).toEqual([]);

      await bring(288);
      program = startProgram(command, socket);
      await until(async () => (await offered()).length === 1, 'it is offered again');
      expect((await (await swap()).ended()).status.state).toBe(AttemptState.ATTEMPT_STATE_SUCCEEDED);
      await agent.close();
      await program.end();
      expect(await readdir(join(dir, 'agent'))).toEqual([]);
    });
  });

  it('the page about engines has 30 lines of Python that are one', {
    // If the machine stands still for a second, a cancelled render ends late.
    retry: 2,
  }, async () => {
    const [, block = ''] = /```python\n([^`]*serve\([^`]*)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
    expect(block.split('\n').filter((line) => line.trim()).length).toBeLessThanOrEqual(30);
    const own = await mkdtemp(join(dir, 'page-'));
    await writeFile(join(own, 'my_engine.py'), block);
    const { inputs } = await portraits(own, 288);
    const { stdout } = await promisify(execFile)(process.execPath, [
      CLI,
      ...['--socket', join(own, 'engine.sock'), '--capability', 'face-swap-image'],
      ...Object.entries(inputs).flatMap(([role, path]) => ['--input', `${role}=${path}`]),
      ...['--bad', `face_not_detected:image=${join(own, 'blank.png')}`],
      ...['--', await pythonEnv(), join(own, 'my_engine.py')],
    ]);
    expect(stdout).toContain('my-swap 1, 1 renders at once');
    expect(stdout.match(/^✓/gm)).toHaveLength(9);
    expect(stdout).toMatch(/It keeps to the contract\.\n$/);
  });
});
