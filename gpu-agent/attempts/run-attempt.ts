import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { plainScript } from '@semblance/common/speech-markup';
import { inSpan } from '@semblance/common/tracing/tracing';
import { CAPABILITIES, type MediaKind } from '@semblance/engine-api/capabilities';
import { type OnProgress, RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Provenance } from '@semblance/provenance/provenance';
import { withOneDecoder } from '@semblance/vision/image/decoder';
import type { Dispatcher } from 'undici';
import { fetchInputs } from '../assets/fetch-inputs.ts';
import { readyInputs } from '../assets/ready-inputs.ts';
import { fileSha256, type Sink, type StoreOptions, storeOutput } from '../assets/store-output.ts';
import type { TransferLimits } from '../assets/transfer.ts';
import { checkedOutput, type WorkDir } from '../assets/work-dir.ts';
import type { ContentChecks } from '../content-check/content-checks.ts';
import { inputSubject } from '../content-check/input-subject.ts';
import type { ChosenEngine } from '../engines/engine-set.ts';
import type { AgentMetrics } from '../metrics.ts';
import { inputsFor, withFirstFace } from './attempt-faces.ts';
import { attemptOptions, checkedWork, statedOptions, withOptions } from './attempt-options.ts';
import { createAttemptProgress } from './attempt-progress.ts';
import type { AttemptOutput, Outcome } from './attempt-table.ts';
import { failedOutcome } from './failed-outcome.ts';
import { measureOutput, type VideoMeter } from './measured-units.ts';
import { beginPreview, type Preview, type VideoReader } from './preview.ts';
import type { AttemptWork } from './start-request.ts';

export interface RunAttemptOptions {
  readonly work: AttemptWork;
  /** Engine that was chosen when the start was decided. */
  readonly engine: Pick<ChosenEngine, 'pool' | 'offer' | 'owner'>;
  readonly workDir: WorkDir;
  readonly contentChecks: ContentChecks;
  readonly provenance: Provenance;
  readonly meter: VideoMeter | undefined;
  /** For previews of videos. */
  readonly media?: VideoReader | undefined;
  readonly dispatcher: Dispatcher;
  readonly metrics: AgentMetrics;
  readonly logger: Logger;
  /** Aborted with an AttemptEnded when the attempt must end. */
  readonly signal: AbortSignal;
  readonly onProgress: OnProgress;
  /**
   * Throws AttemptEnded when the agent's Lease has lapsed by the clock. After a standstill, I/O callbacks may run
   * before the timer that aborts `signal`.
   */
  readonly assertLive: () => void;
  readonly transferLimits?: TransferLimits;
}

/**
 * Runs one attempt: fetch, check, render, measure, check, mark, store. Never rejects. When it resolves, nothing of
 * the attempt runs and its files are removed.
 */
export async function runAttempt(options: RunAttemptOptions): Promise<Outcome> {
  const { work, signal, logger, workDir } = options;
  const name = `${work.ref.jobUid}-${work.ref.attempt}`;
  let remove: (() => Promise<void>) | undefined;
  try {
    const dir = await workDir.attempt(name);
    remove = dir.remove;
    const { traceparent: parent, ref, capability } = work;
    const attributes = {
      'semblance.job_id': work.jobName,
      'semblance.attempt': ref.attempt,
      'semblance.capability': capability,
    };
    // The decoder of the preview starts beside the render, and not when the job waits for it.
    const early = work.previewSink !== undefined && CAPABILITIES[capability].unit === 'image';
    const output = await withOneDecoder(
      () =>
        inSpan('attempt', { kind: 'consumer', parent, attributes }, (traceparent) =>
          fetchRenderStore(options, dir, traceparent),
        ),
      { early },
    );
    signal.throwIfAborted();
    options.assertLive();
    return { state: 'succeeded', output };
  } catch (error) {
    return failedOutcome(signal.aborted ? signal.reason : error, logger);
  } finally {
    try {
      await remove?.();
    } catch (error) {
      logger.error({ err: error }, `cannot remove the files of an attempt: ${describeError(error)}`);
    }
  }
}

async function fetchRenderStore(
  options: RunAttemptOptions,
  dir: { inputs: string; output: string },
  traceparent: string | undefined,
): Promise<AttemptOutput> {
  const step = { parent: traceparent };
  const { work, engine, signal, metrics, logger } = options;
  const { pool, offer } = engine;
  const used = attemptOptions(work, engine);
  const isVideo = CAPABILITIES[work.capability].unit === 'second';
  const progress = createAttemptProgress({ measured: isVideo, onProgress: options.onProgress });
  // Without provenance the output could not be stored, so the work does not begin.
  await options.provenance.ready();
  const transfer = {
    dispatcher: options.dispatcher,
    signal,
    logger,
    ...(options.transferLimits ? { limits: options.transferLimits } : {}),
  };

  progress.fetching();
  const fetchBegan = performance.now();
  const fetched = await inSpan('fetch', step, () =>
    fetchInputs({ ...transfer, inputs: inputsFor(work, offer), dir: dir.inputs, offer, metrics }),
  );
  const fetchMs = performance.now() - fetchBegan;

  const inputs = await readyInputs(work.capability, fetched, offer, signal);
  const checkMs = await timed(() => inSpan('check', step, () => checkInputs(options, inputs, fetched)));

  const result = await inSpan('render', step, () =>
    pool.render(
      {
        capability: work.capability,
        inputs,
        parameters: spokenParameters(work),
        options: used.values,
        outputDir: dir.output,
      },
      { signal, onProgress: progress.rendering },
    ),
  );
  await checkedOutput(result.outputPath, dir.output);
  const preview = work.previewSink
    ? beginPreview({
        ...{ path: result.outputPath, contentType: result.contentType, dir: dir.output },
        ...{ media: options.media, signal, logger },
      })
    : undefined;
  const before = { dir, step, used, progress, transfer, fetched, inputs, fetchMs, checkMs };
  try {
    return await storeRendered(options, { ...before, result, preview });
  } finally {
    await preview?.end();
  }
}

/** What a render left, and what came before it. */
interface Rendered {
  readonly dir: { readonly output: string };
  readonly step: { readonly parent: string | undefined };
  readonly used: ReturnType<typeof attemptOptions>;
  readonly progress: ReturnType<typeof createAttemptProgress>;
  readonly transfer: Pick<StoreOptions, 'dispatcher' | 'signal' | 'logger' | 'limits'>;
  /** Path of each input by its role: as it was sent, and as the engine got it. */
  readonly fetched: Readonly<Record<string, string>>;
  readonly inputs: Readonly<Record<string, string>>;
  readonly result: RenderResult;
  readonly preview: Preview | undefined;
  readonly fetchMs: number;
  readonly checkMs: number;
}

/** Measures, checks, marks and stores an output. */
async function storeRendered(options: RunAttemptOptions, rendered: Rendered): Promise<AttemptOutput> {
  const { work, engine, signal, metrics, logger } = options;
  const { pool, offer } = engine;
  const { dir, step, used, progress, transfer, fetched, inputs, result, preview } = rendered;
  const isVideo = CAPABILITIES[work.capability].unit === 'second';
  const sink = sinkFor(work.sinks, result.contentType);
  const by = { name: pool.known?.name ?? '', version: pool.known?.version ?? '' };
  const measure = () =>
    measureOutput(work.capability, result, {
      meter: options.meter,
      signal,
      logger,
      onCorrection: () => metrics.unitCorrections.inc({ capability: work.capability, engine: by.name }),
      onMeasured: progress.measuring,
    });
  const measureBegan = performance.now();
  if (isVideo) progress.measuring(0);
  const { milliUnits, size } = await (isVideo ? inSpan('measure', step, measure) : measure());
  const measured = isVideo ? [{ name: 'measure', milliseconds: performance.now() - measureBegan }] : [];
  const outputCheckMs = await timed(() => inSpan('check', step, () => checkOutput(options, result)));
  let markedPath = '';
  const markMs = await timed(() =>
    inSpan('mark', step, async () => {
      // The marked file takes the place of this one.
      await preview?.read;
      markedPath = await options.provenance.mark({
        path: result.outputPath,
        contentType: result.contentType,
        capability: work.capability,
        engine: by,
        inputs: fetched,
        models: result.findings?.models ?? [],
        options: statedOptions(offer.options, used.texts),
        signal,
      });
    }),
  );
  const sizeBytes = await checkedOutput(markedPath, dir.output);

  progress.storing();
  const storeBegan = performance.now();
  const sha256Hex = await fileSha256(markedPath, signal);
  options.assertLive();
  const onRetry = () => metrics.transferRetries.inc({ direction: 'store' });
  const mark = { capability: work.capability, engine: by, inputs, models: result.findings?.models ?? [] };
  const previewing =
    work.previewSink &&
    preview?.store({
      ...{ provenance: options.provenance, mark },
      store: { ...transfer, sink: work.previewSink, onRetry },
    });
  await inSpan('store', step, () =>
    storeOutput({
      ...{ ...transfer, path: markedPath, sizeBytes, sink, onRetry },
      onBytes: (count) => metrics.storedBytes.inc(count),
    }),
  );
  await previewing;
  const stages = [
    { name: 'fetch', milliseconds: rendered.fetchMs },
    { name: 'check', milliseconds: rendered.checkMs + outputCheckMs },
    ...result.stages.slice(0, 27),
    ...measured,
    { name: 'mark', milliseconds: markMs },
    { name: 'store', milliseconds: performance.now() - storeBegan },
  ];
  for (const { name, milliseconds } of stages) metrics.stageTook(work.capability, name, milliseconds);
  logger.info({ details: result.details, sizeBytes, milliUnits, size }, 'rendered');
  return {
    key: sink.key,
    contentType: sink.contentType,
    sizeBytes,
    sha256Hex,
    unit: result.units.unit,
    milliUnits,
    size,
    stages,
    engine: pool.known ? `${by.name} ${by.version}` : '',
    findings: withFirstFace(withOptions(result.findings, used.texts), work, offer),
  };
}

/** Returns the parameters with the script of an avatar as it is spoken. @throws RenderError */
function spokenParameters({
  capability,
  parameters,
}: RunAttemptOptions['work']): Readonly<Record<string, string>> {
  const { script } = parameters;
  if (capability !== 'avatar' || script === undefined) return parameters;
  const plain = plainScript(script);
  if ('fault' in plain) throw new RenderError('processing_failed', `The script ${plain.fault}.`);
  return { ...parameters, script: plain.text };
}

/** Checks what engines get, and a file that was rewritten for them also as it was sent. */
function checkInputs(
  options: RunAttemptOptions,
  inputs: Readonly<Record<string, string>>,
  fetched: Readonly<Record<string, string>>,
): Promise<void> {
  const { work, contentChecks, signal, logger } = options;
  const subject = inputSubject(checkedWork(work), inputs);
  const sent = Object.entries(fetched).flatMap(([role, path]) =>
    inputs[role] === path ? [] : [{ role, path, kind: 'image' as const }],
  );
  return contentChecks.assertAllowed({ ...subject, files: [...subject.files, ...sent] }, { signal, logger });
}

function checkOutput(options: RunAttemptOptions, { outputPath, contentType }: RenderResult): Promise<void> {
  const { work, contentChecks, signal, logger } = options;
  const { capability, jobName } = work;
  const { parameters } = checkedWork(work);
  const kind: MediaKind = contentType.startsWith('image/') ? 'image' : 'video';
  const files = [{ role: 'output', path: outputPath, kind, contentType }];
  const subject = { phase: 'output' as const, jobName, capability, parameters, files };
  return contentChecks.assertAllowed(subject, { signal, logger });
}

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function sinkFor(sinks: readonly Sink[], contentType: string): Sink {
  const sink = sinks.find((candidate) => candidate.contentType === contentType);
  if (!sink) throw new Error(`the engine made ${contentType}, for which there is no place to put it`);
  return sink;
}
