import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Check } from '@semblance/gpu-agent/conformance/checks';
import {
  type LiveConformanceInputs,
  liveConformanceChecks,
} from '@semblance/gpu-agent/conformance/live/live-checks';
import type { LiveSubject, StartLiveSubject } from '@semblance/gpu-agent/conformance/live/live-subject';
import { afterAll, beforeAll, describe, it } from 'vitest';

export interface LiveEngineConformance {
  /** Title in the report. */
  readonly title: string;
  readonly start: StartLiveSubject;
  readonly given: () => LiveConformanceInputs | Promise<LiveConformanceInputs>;
}

/** Longest start in ms; a sidecar may have to install its packages first. */
const START_MS = 300_000;

/** Names of the checks; vitest needs them before there is an engine. */
const NAMES = liveConformanceChecks({} as LiveSubject, { capability: 'voice', settings: {} }).map(
  ({ name }) => name,
);

/** Registers the conformance suite of live sessions as tests of one engine. */
export function liveEngineConformance({ title, start, given }: LiveEngineConformance): void {
  describe(`${title} keeps to the contract of live sessions`, () => {
    let dir: string;
    let subject: LiveSubject;
    let checks: readonly Check[];
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'semblance-live-'));
      subject = await start({ dir, signal: AbortSignal.timeout(START_MS) });
      checks = liveConformanceChecks(subject, await given());
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
