import { cutFindings } from '@semblance/common/findings';
import { clip } from '@semblance/common/plain-text';
import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import type { AttemptOutput, AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { outputKey } from './outputs.ts';

type Output = NonNullable<RenderJobStatus['output']>;
type Failure = NonNullable<RenderJobStatus['failure']>;

const FAILURE_CODES: readonly Failure['code'][] = [
  'face_not_detected',
  'unsupported_format',
  'input_too_large',
  'content_rejected',
  'processing_failed',
];

/** Most that one output may be charged, in thousandths: a picture is one image, and no film is longer than a day. */
const MAX_MILLI_UNITS = { image: 1_000, second: 86_400_000 };

/**
 * Returns the output as the resource records it, or the fault that prevents it. The agent's report is checked
 * against the request: what the schema refuses could never be written.
 */
export function outputOf(
  job: RenderJob,
  attempt: number,
  output: AttemptOutput | undefined,
): Output | { readonly fault: string } {
  if (!output) return { fault: 'the agent reported success without an output' };
  const { key, contentType } = output;
  if (key !== outputKey(job, attempt, contentType)) {
    return {
      fault: `the agent reported an output it was not given: ${clip(key, 200)} of type ${clip(contentType, 64)}`,
    };
  }
  const { unit } = CAPABILITIES[job.spec.capability];
  if (output.unit !== unit) {
    return { fault: `the agent measured in the unit "${clip(output.unit, 40)}" where "${unit}" is charged` };
  }
  const sizeBytes = Number(output.sizeBytes);
  const milliUnits = Number(output.milliUnits);
  if (!isCount(sizeBytes) || !isCount(milliUnits) || milliUnits > MAX_MILLI_UNITS[unit]) {
    return {
      fault: `the agent reported a size or a measure out of range: ${output.sizeBytes} bytes, ${output.milliUnits} thousandths of the unit ${unit}`,
    };
  }
  return {
    key,
    contentType,
    sizeBytes,
    ...(output.sha256Hex ? { sha256: clip(output.sha256Hex, 64) } : {}),
    unit,
    milliUnits,
    ...sizeOf(output),
    ...(output.engine ? { engine: clip(output.engine, 64) } : {}),
    stages: output.stages.slice(0, 32).map(({ name, milliseconds, engine }) => ({
      name: clip(name, 64),
      milliseconds: Math.max(0, Math.round(milliseconds) || 0),
      ...(engine ? { engine: clip(engine, 64) } : {}),
    })),
    ...(output.findings ? { findings: recorded(output.findings) } : {}),
  };
}

/** Largest width or height of a frame, in pixels, that the resource records. No codec has larger ones. */
const MAX_SIDE = 65_535;

/** Returns the measured size of a video's frames, if the agent told one. */
function sizeOf({ size }: AttemptOutput): Pick<Output, 'width' | 'height'> {
  if (!size) return {};
  const { width, height } = size;
  return [width, height].every((side) => side >= 1 && side <= MAX_SIDE) ? { width, height } : {};
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** Returns why the work failed, with a code that the resource knows. */
export function failureOf(report: AttemptStatus): Failure {
  const code = FAILURE_CODES.find((known) => known === report.failure?.code) ?? 'processing_failed';
  return { code, message: clip(report.failure?.message || 'The work failed.', 1_024) };
}

/** Returns what the engine found out in an attempt without an output, to be set; otherwise what was set before stays. */
export function foundBy(report: AttemptStatus | undefined): Pick<RenderJobStatus, 'findings'> {
  const said = report?.failure?.findings;
  return said ? { findings: recorded(said) } : {};
}

/** Returns findings as the resource records them, without models, options and a mapping where there are none. */
function recorded(said: Findings): NonNullable<RenderJobStatus['findings']> {
  const { models, options, mapped, ...rest } = cutFindings(said);
  return {
    ...rest,
    ...(models.length > 0 ? { models } : {}),
    ...(Object.keys(options).length > 0 ? { options } : {}),
    ...(mapped.length > 0 ? { mapped } : {}),
  };
}

/** Returns the progress as the resource shows it, such as `42%`; at most 99 % until it is done. */
export function percent(report: AttemptStatus): string {
  const done = Number.isFinite(report.progress) ? report.progress : 0;
  return `${Math.min(99, Math.max(0, Math.floor(done * 100)))}%`;
}

/** Returns the seconds left, as the agent estimates; at most a week. */
export function etaOf({ etaSeconds }: AttemptStatus): number | undefined {
  if (etaSeconds === undefined || !Number.isFinite(etaSeconds)) return undefined;
  return Math.min(604_800, Math.max(0, Math.ceil(etaSeconds)));
}

/**
 * Returns whether the time left is worth a write when nothing else has changed: it appeared, disappeared, or moved
 * by more than a quarter. Its mere running down thus costs a few writes an hour.
 */
export function isNewsOfTime(written: number | undefined, left: number | undefined): boolean {
  if (written === undefined || left === undefined) return written !== left;
  return Math.abs(left - written) > Math.max(1, written / 4);
}

/**
 * Returns the start of the attempt: by the agent's clock if credible, else now; nothing if the resource has it
 * already. An attempt that ends at once was never written as running, so its end records the start, too.
 */
export function began({ status }: RenderJob, report: AttemptStatus, now: number): { startTime?: string } {
  if (status?.startTime) return {};
  const at = Number(report.startedAtMs);
  return { startTime: new Date(at > now - 60_000 && at <= now ? at : now).toISOString() };
}
