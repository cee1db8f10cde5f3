import { existsSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Engine, RenderRequest } from '@semblance/engine-api/engine';
import { hosted, inProcess } from '@semblance/testkit/conformance/subjects';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import { createTestEngine, TEST_ENGINE } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { conformanceChecks } from './checks.ts';

/** Creates small pictures, because only the number of renders matters here. */
const pictures = async (dir: string) => ({ inputs: (await portraits(dir, 96)).inputs });
/** Time for a cancelled render to end, in ms: the test machine may stand still. */
const cancelMs = 5_000;
const test = {
  capability: 'face-swap-image',
  parameters: { mode: 'picture' },
  samples: pictures,
  cancelMs,
} as const;

engineConformance({
  title: 'the test engine in this process',
  start: inProcess(() => createTestEngine({ threads: 1 })),
  works: [test],
});
engineConformance({
  title: 'the test engine in processes of its own',
  start: hosted(TEST_ENGINE),
  works: [test],
});
describe('the conformance suite', () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-conformance-'));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  /** Returns the checks that fail for a changed test engine. Cancelled renders have `cancelMs` to end. */
  async function faults(change: (engine: Engine) => Partial<Engine>, cancelMs: number) {
    const own = await mkdtemp(join(dir, 'engine-'));
    const engine = createTestEngine({ threads: 1 });
    const start = inProcess(() => ({ ...engine, ...change(engine) }));
    const subject = await start({ dir: own, signal: AbortSignal.timeout(10_000) });
    const given = {
      capability: 'face-swap-image',
      parameters: { mode: 'picture' },
      cancelMs,
      ...(await pictures(own)),
    } as const;
    const failed: { readonly name: string; readonly message: string }[] = [];
    for (const { name, skip, run } of conformanceChecks(subject, given, own)) {
      const begins = name.split(/[ :,]/, 3).join(' ');
      if (!skip) await run().catch(({ message }: Error) => failed.push({ name: begins, message }));
    }
    return failed;
  }
  const failing = async (...given: Parameters<typeof faults>) =>
    (await faults(...given)).map(({ name }) => name);
  /** Returns a change that wraps each render of the engine. */
  const rendering =
    (render: (request: RenderRequest, engine: Engine) => ReturnType<Engine['render']>) =>
    (engine: Engine) => ({
      render: (request: RenderRequest) => render(request, engine),
    });

  it('leaves out what needs a render where none succeeds', async () => {
    const broken = rendering(async () => {
      throw new Error('no weights');
    });
    expect(await failing(broken, 60_000)).toEqual(['renders  the']);
  });

  it('says which content type it was, and why a render ended before its cancel', async () => {
    let renders = 0;
    const change = rendering(async (request, engine) => {
      // The first render succeeds, and the second is cancelled before it begins.
      if (++renders === 3) throw new Error('out of luck');
      return { ...(await engine.render(request)), contentType: 'image/tiff' };
    });
    expect(await faults(change, 60_000)).toEqual([
      {
        name: 'renders  the',
        message: 'the content type is image/tiff, not image/png or image/jpeg or image/webp',
      },
      { name: 'ends a cancelled', message: 'it ended before its cancel: out of luck' },
    ]);
  });

  it.each<[string, (engine: Engine) => Partial<Engine>, string[]]>([
    ['keeps to it, and is never closed', () => ({ close: async () => {} }), ['closes  and']],
    ['has a name of two words', () => ({ name: 'two words' }), ['says what it']],
    [
      'offers what only sessions carry',
      ({ capabilities }) => ({
        capabilities: [...capabilities, { capability: 'voice', slots: 1, memoryMib: 1 }],
      }),
      ['says what it'],
    ],
    [
      'says a stage without a name',
      rendering((request, engine) =>
        engine.render({ ...request, onProgress: (f) => request.onProgress(f, '') }),
      ),
      ['tells progress that'],
    ],
    [
      'goes backwards',
      rendering((request, engine) =>
        engine.render({ ...request, onProgress: (f, stage) => request.onProgress(1 - f, stage) }),
      ),
      ['tells progress that'],
    ],
    [
      'ends a cancelled render late',
      rendering((request, engine) =>
        engine.render(request).catch(async (error) => {
          await delay(request.signal.aborted ? 1_100 : 0);
          throw error;
        }),
      ),
      ['ends a cancelled'],
    ],
    [
      'writes after its end',
      rendering((request, engine) => {
        // The engine writes repeatedly, so that one write comes after the end of the render. The first comes at
        // once, so that the check finds a file.
        request.signal.addEventListener('abort', () => {
          let count = 0;
          const timer = setInterval(() => {
            if (++count === 40 || !existsSync(request.outputDir)) clearInterval(timer);
            else writeFileSync(join(request.outputDir, `late-${count}`), 'x');
          }, 50);
        });
        return engine.render(request);
      }),
      ['ends a cancelled'],
    ],
    [
      'measures nothing',
      rendering(async (request, engine) => ({
        ...(await engine.render(request)),
        units: { unit: 'image', quantity: 0 },
      })),
      ['renders  the'],
    ],
    [
      'says another type',
      rendering(async (request, engine) => ({
        ...(await engine.render(request)),
        contentType: 'image/webp',
      })),
      ['renders  the'],
    ],
    [
      'leaves a file behind',
      rendering(async (request, engine) => {
        await writeFile(join(request.outputDir, 'scratch'), 'x');
        return engine.render(request);
      }),
      ['renders  the'],
    ],
    [
      'takes bad input for a fault of its own',
      rendering((request, engine) =>
        engine.render(request).catch((error) => {
          throw request.signal.aborted ? error : new Error('bug');
        }),
      ),
      ['refuses what cannot'],
    ],
    [
      'does the same work in another way each time',
      rendering(async (request, engine) => {
        const result = await engine.render(request);
        await writeFile(result.outputPath, `${Math.random()}`, { flag: 'a' });
        return result;
      }),
      ['does as many'],
    ],
  ])('notices an engine that %s', async (_what, change, expected) => {
    // Only the late engine has a short limit, because the machine may stand still during the others.
    const limit = expected.includes('ends a cancelled') ? 1_000 : 60_000;
    expect(await failing(change, limit)).toEqual(expected);
  });
});
