import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestEngine, TEST_ENGINE } from '../../testing/test-engine.ts';
import type { Engine, RenderRequest } from '../engine.ts';
import { conformanceChecks } from './checks.ts';
import { portraits } from './portraits.ts';
import { hosted, inProcess } from './subject.ts';
import { engineConformance } from './vitest.ts';

/** Small, for what matters here is how often they are rendered. */
const pictures = async (dir: string) => ({ inputs: (await portraits(dir, 96)).inputs });
/** The machine that runs the tests may stand still for a moment. */
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

  /** Names of the checks that fail for a test engine with this change. */
  async function failing(change: (engine: Engine) => Partial<Engine>): Promise<string[]> {
    const own = await mkdtemp(join(dir, 'engine-'));
    const engine = createTestEngine({ threads: 1 });
    const start = inProcess(() => ({ ...engine, ...change(engine) }));
    const subject = await start({ dir: own, signal: AbortSignal.timeout(10_000) });
    const given = {
      capability: 'face-swap-image',
      parameters: { mode: 'picture' },
      ...(await pictures(own)),
    } as const;
    const failed: string[] = [];
    for (const { name, skip, run } of conformanceChecks(subject, given, own)) {
      if (!skip) await run().catch(() => failed.push(name.split(/[ :,]/, 3).join(' ')));
    }
    return failed;
  }
  /** Of the engine as it is, with something done to each render. */
  const rendering =
    (render: (request: RenderRequest, engine: Engine) => ReturnType<Engine['render']>) =>
    (engine: Engine) => ({
      render: (request: RenderRequest) => render(request, engine),
    });

  it.each<[string, (engine: Engine) => Partial<Engine>, string[]]>([
    ['keeps to it, and is never closed', () => ({ close: async () => {} }), ['closes  and']],
    ['has a name of two words', () => ({ name: 'two words' }), ['says what it']],
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
        request.signal.addEventListener('abort', () => {
          setTimeout(() => writeFile(join(request.outputDir, 'late'), 'x'), 100);
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
    expect(await failing(change)).toEqual(expected);
  });
});
