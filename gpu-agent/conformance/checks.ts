import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import { CAPABILITIES, type Capability, type MediaKind } from '@semblance/engine-api/capabilities';
import { RENDER_ERROR_CODES, RenderError } from '@semblance/engine-api/engine';
import { checkedOutput } from '../assets/work-dir.ts';
import { checkFindings, checkProgress, checkRender, checkStatement, type Rendered } from './assertions.ts';
import type { BadSample, Inputs } from './samples.ts';
import { unreadable } from './samples.ts';
import type { Subject } from './subject.ts';

export interface ConformanceInputs {
  readonly capability: Capability;
  /** Work that the engine can do. It should take some tenths of a second, so that it can be cancelled. */
  readonly inputs: Inputs;
  readonly parameters?: Readonly<Record<string, string>>;
  /** Work that the engine must refuse, besides unreadable files. */
  readonly bad?: readonly BadSample[];
  /** Longest time of one render, in ms. Default: 60 s. */
  readonly renderMs?: number;
  /** Time in which a cancelled render must end, in ms. Default: the 1 s of the contract; more on a slow machine. */
  readonly cancelMs?: number;
}

export interface Check {
  readonly name: string;
  /** Reason to skip the check; read when its turn comes. */
  readonly skip?: string | undefined;
  /** @throws AssertionError naming the deviation from the contract */
  run(): Promise<void>;
}

function picturesIn(inputs: Inputs, capability: Capability): Inputs {
  const roles: Readonly<Record<string, { readonly kind: MediaKind } | undefined>> =
    CAPABILITIES[capability].inputs;
  return Object.fromEntries(Object.entries(inputs).filter(([role]) => roles[role]?.kind === 'image'));
}

function inspectionSkip(subject: Subject, capability: Capability): Pick<Check, 'skip'> {
  if (!subject.inspect) return { skip: 'it does not inspect' };
  const kinds = Object.values(CAPABILITIES[capability].inputs).map(({ kind }) => kind);
  return kinds.includes('image') ? {} : { skip: 'no input is a picture' };
}

/** Returns a function that begins a render in a new output folder. */
function createRenders(
  subject: Subject,
  { capability, inputs, parameters = {} }: ConformanceInputs,
  dir: string,
) {
  let count = 0;
  return async (signal: AbortSignal, more: { inputs?: Inputs; onProgress?: () => void } = {}) => {
    const outputDir = join(dir, `output-${++count}`);
    await mkdir(outputDir);
    const progress: [number, string, number?][] = [];
    const began = performance.now();
    const work = { capability, inputs: more.inputs ?? inputs, parameters, outputDir };
    const done = subject
      .render(work, {
        signal,
        onProgress(...said) {
          progress.push(said);
          more.onProgress?.();
        },
      })
      .then((result): Rendered => ({ result, outputDir, progress, tookMs: performance.now() - began }));
    done.catch(() => {});
    return { outputDir, done };
  };
}

/**
 * Returns the requirements of every engine as checks. They share the subject and must run in this order.
 * @param dir existing private directory for inputs and outputs
 */
export function conformanceChecks(subject: Subject, given: ConformanceInputs, dir: string): Check[] {
  const { capability, inputs, parameters = {}, bad = [], renderMs = 60_000, cancelMs = 1_000 } = given;
  let good: Rendered | undefined;
  let tried = false;

  const begin = createRenders(subject, given, dir);
  const render = async () => (await begin(AbortSignal.timeout(renderMs))).done;
  /** Skips the check when no render succeeds, because it would only repeat that failure. */
  const afterRender = (check: Check): Check => ({
    ...check,
    get skip() {
      return check.skip ?? (tried && !good ? 'it did not render' : undefined);
    },
  });

  return [
    {
      name: 'says what it is and can do',
      async run() {
        checkStatement(subject.info, capability);
      },
    },
    {
      name: 'is warmed up any number of times',
      ...(subject.warmUp ? {} : { skip: 'its host warms it up' }),
      async run() {
        await subject.warmUp?.(AbortSignal.timeout(60_000));
        await subject.warmUp?.(AbortSignal.timeout(5_000));
      },
    },
    {
      name: 'renders: the file, its type, the units measured on it, stages and details',
      async run() {
        const before = await hashes(inputs);
        tried = true;
        good = await render();
        await checkRender(good, capability);
        assert.deepEqual(await hashes(inputs), before, 'an input was changed');
      },
    },
    afterRender({
      name: 'tells progress that never falls',
      async run() {
        assert.ok(good, 'there was no render');
        checkProgress(good.progress);
      },
    }),
    afterRender({
      name: 'finds something out about pictures alone, and changes none',
      ...inspectionSkip(subject, capability),
      async run() {
        const pictures = picturesIn(inputs, capability);
        const before = await hashes(pictures);
        const work = { capability, inputs: pictures, parameters };
        const findings = await subject.inspect?.(work, AbortSignal.timeout(renderMs));
        assert.ok(findings, 'it found nothing out');
        checkFindings(findings, capability);
        assert.deepEqual(await hashes(pictures), before, 'a picture was changed');
      },
    }),
    afterRender({
      name: 'ends a cancelled render in time, and nothing of it is left',
      async run() {
        const reason = new Error('cancelled by the conformance suite');
        await assert.rejects(
          (await begin(AbortSignal.abort(reason))).done,
          reason,
          'it was cancelled before',
        );
        // One render is cancelled at its beginning, and one in its middle.
        for (const after of [1, Math.ceil((good?.progress.length ?? 2) / 2)]) {
          const controller = new AbortController();
          let reports = 0;
          let cancelledAt = 0;
          const onProgress = () => {
            if (++reports !== after) return;
            cancelledAt = performance.now();
            controller.abort(reason);
          };
          const { done, outputDir } = await begin(controller.signal, { onProgress });
          const error = await done.then(() => undefined, describeError);
          const tookMs = performance.now() - cancelledAt;
          if (!cancelledAt) assert.fail(`it ended before its cancel: ${error ?? 'it rendered'}`);
          await assert.rejects(done, reason, 'a cancelled render went on to its end');
          assert.ok(tookMs <= cancelMs, `it ended ${Math.round(tookMs)} ms after its cancel`);
          const files = await readdir(outputDir);
          await delay(300);
          assert.deepEqual(await readdir(outputDir), files, 'it wrote after its end');
        }
        await render();
      },
    }),
    afterRender({
      name: 'refuses what cannot be done with the code that says so',
      async run() {
        for (const sample of [...(await unreadable(capability, inputs, dir)), ...bad]) {
          const { done } = await begin(AbortSignal.timeout(renderMs), sample);
          const error = await done.then(
            () => assert.fail(`${sample.name} was rendered`),
            (reason: unknown) => reason,
          );
          assert.ok(error instanceof RenderError, `${sample.name}: ${error}`);
          assert.ok(RENDER_ERROR_CODES.includes(error.code), `${sample.name}: unknown code ${error.code}`);
          assert.equal(error.code, sample.code, `${sample.name}: ${error.message}`);
          assert.ok(error.message.length > 0 && error.message.length <= 1_024, `${sample.name}: its message`);
          assert.ok(!error.message.includes(dir), `${sample.name}: the message names a path`);
        }
        await render();
      },
    }),
    afterRender({
      name: 'does as many renders at once as it says, each on its own',
      async run() {
        const all = await Promise.all(Array.from({ length: Math.min(8, subject.places) }, render));
        const expected = await hashes({ output: good?.result.outputPath ?? '' });
        for (const { result, outputDir } of all) {
          await checkedOutput(result.outputPath, outputDir);
          assert.deepEqual(
            await hashes({ output: result.outputPath }),
            expected,
            'the same work, another output',
          );
        }
      },
    }),
    afterRender({
      name: 'fails what a dead process rendered and nothing else, is started again, and renders',
      ...(subject.crash ? {} : { skip: 'there is no process that may be killed' }),
      async run() {
        const crash = once(() => subject.crash?.());
        const signal = AbortSignal.timeout(renderMs);
        const begun = Array.from({ length: subject.isolated ? subject.places : 1 }, async () => {
          const { done } = await begin(signal, { onProgress: crash });
          return done;
        });
        const ended = await Promise.allSettled(begun);
        const errors = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
        assert.equal(errors.length, 1, `${errors.length} of ${ended.length} renders failed`);
        assert.equal(errors[0].retryable, true, `the render is not tried again: ${errors[0]}`);
        await subject.restarted?.();
        const { result } = await render();
        assert.deepEqual(
          await hashes({ output: result.outputPath }),
          await hashes({ output: good?.result.outputPath ?? '' }),
        );
      },
    }),
    {
      name: 'closes, and renders nothing more',
      async run() {
        await subject.close();
        await assert.rejects(render(), 'it rendered after it was closed');
      },
    },
  ];
}

async function hashes(files: Inputs): Promise<Record<string, string>> {
  const entries = Object.entries(files).map(async ([role, path]) => {
    const hash = createHash('sha256').update(await readFile(path));
    return [role, hash.digest('hex')] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

function once(act: () => void): () => void {
  let done = false;
  return () => {
    if (!done) act();
    done = true;
  };
}
