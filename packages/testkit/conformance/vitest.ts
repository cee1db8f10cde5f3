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

/** A capability to hold an engine to. */
export interface ConformanceWork extends Omit<ConformanceInputs, 'inputs' | 'bad'> {
  /** What its tests need beside what `npm ci` brings. */
  readonly tags?: string[];
  /** Makes the samples in a folder that goes when the suite ends. */
  readonly samples: (dir: string) => Promise<Pick<ConformanceInputs, 'inputs' | 'bad'>>;
}

export interface EngineConformance {
  /** Title in the report. */
  readonly title: string;
  readonly start: StartSubject;
  /** Done one after the other by the engine as it was started once. */
  readonly works: readonly ConformanceWork[];
}

/** A sidecar's packages may have to be installed first. */
const START_MS = 300_000;

/** Names of the checks, for they must be known before a subject is. */
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
        // The last check closes the engine.
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
