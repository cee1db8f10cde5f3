import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Check,
  type ConformanceInputs,
  conformanceChecks,
} from '@semblance/gpu-agent/conformance/checks';
import type { StartSubject, Subject } from '@semblance/gpu-agent/conformance/subject';
import { afterAll, beforeAll, describe, it } from 'vitest';

/** A capability that an engine is tested for. */
export interface ConformanceWork extends Omit<ConformanceInputs, 'inputs' | 'bad'> {
  /** Tags of its tests, for needs beyond `npm ci`. */
  readonly tags?: string[];
  /** Creates the samples in a folder that is removed when the suite ends. */
  readonly samples: (dir: string) => Promise<Pick<ConformanceInputs, 'inputs' | 'bad'>>;
}

export interface EngineConformance {
  /** Title in the report. */
  readonly title: string;
  readonly start: StartSubject;
  /** Works that one engine instance does in turn. */
  readonly works: readonly ConformanceWork[];
}

/** Longest start in ms; a sidecar may have to install its packages first. */
const START_MS = 300_000;

/** Names of the checks; vitest needs them before there is an engine. */
const NAMES = conformanceChecks(
  { places: 1 } as Subject,
  { capability: 'face-swap-image', inputs: {} },
  '',
).map(({ name }) => name);

/** Registers the conformance suite as tests of one engine. */
export function engineConformance({ title, start, works }: EngineConformance): void {
  describe(`${title} keeps to the engine contract`, () => {
    let dir: string;
    let subject: Subject;
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'semblance-conformance-'));
      subject = await start({ dir, signal: AbortSignal.timeout(START_MS) });
    }, START_MS);
    afterAll(async () => {
      await subject?.close();
      await rm(dir, { recursive: true, force: true });
    });
    for (const [place, { samples, tags = [], ...given }] of works.entries()) {
      describe(given.capability, { tags }, () => {
        let checks: readonly Check[];
        beforeAll(async () => {
          const own = join(dir, given.capability);
          await mkdir(own);
          checks = conformanceChecks(subject, { ...given, ...(await samples(own)) }, own);
        }, START_MS);
        // The last check closes the engine, so only the last work includes it.
        const names = place === works.length - 1 ? NAMES : NAMES.slice(0, -1);
        for (const [index, name] of names.entries()) {
          it(name, async ({ skip }) => {
            const check = checks[index] as Check;
            if (check.skip) skip(check.skip);
            await check.run();
          });
        }
      });
    }
  });
}
