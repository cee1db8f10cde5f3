import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import type { GetInfoResponse } from '@semblance/proto/semblance/engine/v1/engine';
import { GOOD_INFO } from '@semblance/testkit/engine-sidecar/scripted-sidecar';
import { useSidecarRig } from '@semblance/testkit/engine-sidecar/sidecar-rig';
import { describe, expect, it, vi } from 'vitest';
import { createEnginePool } from './host/engine-pool.ts';
import { sidecarSource } from './registry.ts';

const idle = new AbortController().signal;
const { dir, socket, atEnd, sidecar, warmEngine, work, leftovers } = useSidecarRig();

const OFFER = {
  capability: 'face-swap-image',
  slots: 1,
  memoryMib: 1,
  vramMib: 0,
  limits: undefined,
  options: [],
  severalFaces: false,
};

describe('a sidecar', () => {
  it('says what it is and renders, with progress, from files it was given to files of its own', async () => {
    await sidecar();
    const engine = await warmEngine();
    expect(engine).toMatchObject({ name: 'scripted', version: '1.0', concurrency: 2 });
    const seen: unknown[] = [];
    const request = { ...(await work('inputs')), onProgress: (...said: unknown[]) => seen.push(said) };
    const result = await engine.render(request);
    expect(result).toEqual({
      outputPath: join(request.outputDir, 'out.png'),
      contentType: 'image/png',
      units: { unit: 'image', quantity: 1 },
      stages: [{ name: 'work', milliseconds: 1, engine: 'other' }],
      details: { faces: '2' },
    });
    expect(seen).toEqual([[0.5, 'work', 4]]);
    expect((await readFile(result.outputPath, 'utf8')).split(' ').sort()).toEqual([
      expect.stringMatching(/^work\/[0-9a-f-]{36}\/in\/face$/),
      expect.stringMatching(/^work\/[0-9a-f-]{36}\/in\/image$/),
    ]);
    expect(await leftovers()).toEqual([]);
  });

  it('says what it takes of the card, or nothing', async () => {
    await sidecar();
    const quiet = await warmEngine();
    expect(quiet.vramMib).toBeUndefined();
    expect(quiet.capabilities[0]).not.toHaveProperty('vramMib');
    await quiet.close();
    await sidecar({ info: { ...GOOD_INFO, vramMib: 6_000, capabilities: [{ ...OFFER, vramMib: 3_000 }] } });
    const engine = await warmEngine();
    expect(engine.vramMib).toBe(6_000);
    expect(engine.capabilities).toMatchObject([{ capability: 'face-swap-image', vramMib: 3_000 }]);
  });

  it('is warmed up once more when asked once more', async () => {
    const { state } = await sidecar();
    const engine = await warmEngine();
    await engine.warmUp(idle);
    expect(state).toMatchObject({ warmUps: 2, infos: 1 });
  });

  it.each([
    ['refuse', { name: 'RenderError', code: 'face_not_detected', message: 'There is no face in the image.' }],
    ['unavailable', { name: 'EngineInterruptedError' }],
    ['exhausted', { name: 'EngineInterruptedError' }],
    ['internal', { name: 'Error', message: expect.stringContaining('INTERNAL: as asked') }],
  ])('that ends a render by %s is understood', async (mode, error) => {
    await sidecar();
    const engine = await warmEngine();
    await expect(engine.render(await work(mode))).rejects.toMatchObject(error);
    expect(await leftovers()).toEqual([]);
  });

  it.each([
    ['silent', { name: 'EngineInterruptedError', message: 'the sidecar said nothing for 0.5 s' }],
    ['backwards-for-ever', { name: 'ContractError', message: expect.stringContaining('fell from 0.5') }],
    ['refuses-for-ever', { name: 'RenderError', code: 'face_not_detected' }],
  ])(
    'that goes on with a render that is over (%s) is given nothing more by this client',
    async (mode, error) => {
      const { state, running } = await sidecar();
      const engine = await warmEngine(idle, { endMs: 200, ...(mode === 'silent' ? { silenceMs: 500 } : {}) });
      await expect(engine.render(await work(mode))).rejects.toMatchObject(error);
      expect(await leftovers()).toEqual([]);
      expect(state.cancelled).toBe(1);
      expect(running.size).toBe(1);
      expect(await engine.ended).toBe('the sidecar goes on with a render that is over');
      await expect(engine.render(await work('ok'))).rejects.toMatchObject({ name: 'EngineInterruptedError' });
      // The next client waits until the sidecar has a free place.
      const next = warmEngine();
      const early = await Promise.race([next, delay(500)]);
      expect(early).toBeUndefined();
      running.clear();
      expect((await (await next).render(await work('ok'))).contentType).toBe('image/png');
    },
  );

  it.each([
    ['backwards', 'its progress fell from 0.5 to 0.2'],
    ['nan', 'its progress is NaN'],
    ['beyond', 'its progress is 1.01'],
    ['no-stage', 'a stage has 1 to 64 characters'],
    ['endless', 'Infinity seconds cannot be left'],
    ['empty-message', 'it sent an empty message'],
    ['no-result', 'it ended without a result'],
    ['twice', 'it said result after its result'],
    ['unknown-code', 'the unknown code "tired"'],
    ['no-message', 'the message of a failure'],
    ['huge', 'larger than max'],
    ['talkative', 'a detail is too long'],
    ['climbs', '"../in/image" is no name of a file'],
    ['absolute', '"/etc/hostname" is no name of a file'],
    ['parent', '".." is no name of a file'],
    ['wrong-unit', 'is measured in the unit image'],
    ['no-units', 'it measured 0 thousandths'],
    ['bad-stage', 'a stage took NaN ms'],
    ['missing', 'the output cannot be opened (ENOENT)'],
    ['link', 'the output cannot be opened (ELOOP)'],
    ['folder', 'the output is not a regular file'],
    ['empty', 'the output is empty'],
    ['swapped', 'the output is outside its folder'],
  ])('that answers %s is refused, and lives on', async (mode, message) => {
    const { running } = await sidecar();
    const engine = await warmEngine();
    const request = await work(mode);
    await expect(engine.render(request)).rejects.toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining(message),
    });
    expect(running.size).toBe(0);
    expect(await leftovers()).toEqual([]);
    expect(await readdir(request.outputDir)).toEqual([]);
    expect((await engine.render(await work('ok'))).contentType).toBe('image/png');
  });

  it('ends a cancelled render, and the client waits until it has', async () => {
    const { state, running } = await sidecar();
    const engine = await warmEngine();
    const controller = new AbortController();
    const render = engine.render(await work('slow', controller.signal));
    await expect.poll(() => running.size).toBe(1);
    controller.abort(new Error('enough'));
    await expect(render).rejects.toThrow('enough');
    expect(running.size).toBe(0);
    expect(state.cancelled).toBe(1);
    expect(await leftovers()).toEqual([]);
    await expect(engine.render(await work('ok', controller.signal))).rejects.toThrow('enough');
  });

  it.each<[string, Partial<GetInfoResponse>, string]>([
    ['no name', { name: '' }, 'its name is ""'],
    ['a name of two lines', { name: 'a\nb' }, 'its name is "a\\nb"'],
    ['no version', { version: '' }, 'its version is ""'],
    ['no places', { concurrency: 0 }, 'its concurrency is 0'],
    ['nothing to offer', { capabilities: [] }, 'it offers no capability'],
    [
      'an unknown capability',
      {
        capabilities: [
          {
            capability: 'face-paint',
            slots: 1,
            memoryMib: 1,
            vramMib: 0,
            limits: undefined,
            options: [],
            severalFaces: false,
          },
        ],
      },
      '"face-paint", which is no capability',
    ],
    ...['voice', 'full-live-swap'].map((capability): [string, Partial<GetInfoResponse>, string] => [
      `the live capability ${capability}`,
      {
        capabilities: [
          {
            capability,
            slots: 1,
            memoryMib: 1,
            vramMib: 0,
            limits: undefined,
            options: [],
            severalFaces: false,
          },
        ],
      },
      `it offers ${capability}, which is no work for an engine`,
    ]),
    ['a negative memory on the card', { vramMib: -1 }, 'it holds -1 MiB on the card'],
    [
      'a render of negative memory on the card',
      { capabilities: [{ ...OFFER, vramMib: -1 }] },
      'face-swap-image takes -1 MiB on the card',
    ],
    [
      'the same capability twice',
      { capabilities: [...GOOD_INFO.capabilities, ...GOOD_INFO.capabilities] },
      'it offers face-swap-image twice',
    ],
    [
      'a negative limit',
      {
        capabilities: [
          {
            capability: 'face-swap-image',
            slots: 1,
            memoryMib: 1,
            vramMib: 0,
            limits: { maxInputBytes: 0n, maxPixels: -1n, maxSeconds: 0 },
            options: [],
            severalFaces: false,
          },
        ],
      },
      'the limit maxPixels of -1',
    ],
  ])('with %s is not used', async (_what, change, message) => {
    await sidecar({ info: { ...GOOD_INFO, ...change } });
    await expect(warmEngine()).rejects.toThrow(message);
  });

  it('that is not there is waited for', async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    const waiting = warmEngine();
    await delay(300);
    await sidecar();
    expect((await waiting).name).toBe('scripted');
    const controller = new AbortController();
    const { state } = await sidecar();
    state.serving = false;
    const unready = warmEngine(controller.signal);
    controller.abort(new Error('ending'));
    await expect(unready).rejects.toThrow('ending');
  });

  it('that hangs, goes away or takes no renders ends its client', async () => {
    const first = await sidecar();
    const hanging = await warmEngine(idle, { deadAfterMs: 400 });
    first.state.answering = false;
    expect(await hanging.ended).toMatch(/has not answered for/);
    first.state.answering = true;
    const refusing = await warmEngine();
    first.state.serving = false;
    expect(await refusing.ended).toBe('the sidecar takes no renders now');
    first.state.serving = true;
    const left = await warmEngine();
    const render = left.render(await work('slow'));
    await expect.poll(() => first.running.size).toBe(1);
    await first.kill();
    await expect(render).rejects.toMatchObject({ name: 'EngineInterruptedError' });
    expect(await left.ended).toMatch(/^the sidecar is gone/);
  });
});

describe('the host of a sidecar', () => {
  function startPool() {
    const pool = createEnginePool({
      setup: {
        source: sidecarSource(socket(), 0),
        options: { threads: 1, settings: { socket: socket() } },
      },
      processes: 1,
      rendersPerProcess: 4,
      offeredWhileDown: false,
      tempDir: dir(),
      logger: silentLogger(),
      cancelGraceMs: 1_000,
      restartDelayMs: () => 10,
    });
    atEnd(() => pool.close());
    return pool;
  }

  it('offers what the sidecar does while it answers, and again when it is back', async () => {
    const first = await sidecar();
    const pool = startPool();
    await pool.firstReady();
    expect(pool).toMatchObject({ capacity: 2, places: 2, engine: { name: 'scripted' } });
    const held = [await work('slow'), await work('slow')].map(({ signal, onProgress, ...rest }) =>
      pool.render(rest, { signal, onProgress }).catch((error: Error) => error),
    );
    await expect.poll(() => first.running.size).toBe(2);
    await first.kill();
    for (const error of await Promise.all(held)) expect(error).toMatchObject({ retryable: true });
    await expect.poll(() => pool.engine).toBeUndefined();
    expect(pool.capacity).toBe(0);
    await sidecar({ info: { ...GOOD_INFO, version: '2.0', concurrency: 1 } });
    await expect.poll(() => pool.engine).toMatchObject({ version: '2.0' });
    expect(pool.capacity).toBe(1);
    const { signal, onProgress, ...rest } = await work('ok');
    expect((await pool.render(rest, { signal, onProgress })).contentType).toBe('image/png');
  });

  it('gives a sidecar that ignores a cancel nothing more until it is done', async () => {
    const { running } = await sidecar();
    const pool = startPool();
    await pool.firstReady();
    const controller = new AbortController();
    const { signal, onProgress, ...rest } = await work('ignores-cancel', controller.signal);
    const render = pool.render(rest, { signal, onProgress });
    await expect.poll(() => running.size).toBe(1);
    controller.abort(new Error('enough'));
    await expect(render).rejects.toThrow('enough');
    // The client may have given up the render first; then its process has still to end.
    await expect.poll(() => pool.engine).toBeUndefined();
    await delay(1_500);
    expect(pool.engine).toBeUndefined();
    running.clear();
    await expect.poll(() => pool.engine).toBeDefined();
  });

  it('gives a sidecar that goes on with a render that is over nothing more until it is done', async () => {
    const { running } = await sidecar();
    const pool = startPool();
    await pool.firstReady();
    const { signal, onProgress, ...rest } = await work('backwards-for-ever');
    const failed = pool.render(rest, { signal, onProgress }).catch((error: Error) => error);
    // This render waits in the agent from the moment when the other one is over.
    const waiting = failed.then(async () => {
      expect(pool.warm.some(({ busy }) => busy > 0)).toBe(false);
      return pool.render({ ...(await work('ok')) }, { signal, onProgress });
    });
    expect(await failed).toMatchObject({
      name: 'EngineFaultError',
      message: expect.stringContaining('fell'),
    });
    await expect.poll(() => pool.engine).toBeUndefined();
    await delay(500);
    expect(pool.engine).toBeUndefined();
    running.clear();
    expect((await waiting).contentType).toBe('image/png');
    expect(pool.engine).toBeDefined();
  });
});
