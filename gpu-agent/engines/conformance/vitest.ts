import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { type Check, type ConformanceInputs, conformanceChecks } from './checks.ts';
import type { StartSubject, Subject } from './subject.ts';

export interface EngineConformance extends Omit<ConformanceInputs, 'inputs' | 'bad'> {
  /** Title in the report. */
  readonly title: string;
  readonly start: StartSubject;
  /** Makes the samples in a folder that goes when the suite ends. */
  readonly samples: (dir: string) => Promise<Pick<ConformanceInputs, 'inputs' | 'bad'>>;
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
export function engineConformance({ title, start, samples, ...given }: EngineConformance): void {
  describe(`${title} keeps to the engine contract`, () => {
    let dir: string;
    let subject: Subject;
    let checks: readonly Check[];
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'semblance-conformance-'));
      subject = await start({ dir, signal: AbortSignal.timeout(START_MS) });
      checks = conformanceChecks(subject, { ...given, ...(await samples(dir)) }, dir);
    }, START_MS);
    afterAll(async () => {
      await subject?.close();
      await rm(dir, { recursive: true, force: true });
    });
    for (const [index, name] of NAMES.entries()) {
      it(name, async ({ skip }) => {
        const check = checks[index] as Check;
        if (check.skip) skip(check.skip);
        await check.run();
      });
    }
  });
}
