import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { DeviceGoneError } from '@semblance/engine-api/device-fault';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import { exhausted } from '@semblance/engine-api/exhausted';
import { SigningCredentialError } from '@semblance/provenance/signer';
import { AssetError } from '../assets/errors.ts';
import { ContentCheckError } from '../content-check/check.ts';
import { EngineUnavailableError } from '../engines/host/engine-pool.ts';
import { EngineCrashedError } from '../engines/host/failures.ts';
import type { Outcome } from './attempt-table.ts';
import { AttemptEnded } from './endings.ts';

/** Converts an error to the outcome of its attempt: failed permanently, or worth another attempt. */
export function failedOutcome(error: unknown, logger: Pick<Logger, 'info' | 'warn' | 'error'>): Outcome {
  if (error instanceof AttemptEnded) {
    return { state: error.outcome, failure: { code: 'processing_failed', message: error.message } };
  }
  if (error instanceof DeviceGoneError) {
    logger.warn({ err: error }, `giving the attempt back: ${describeError(error)}`);
    const message = 'The device that it ran on is gone.';
    return { state: 'stopped', failure: { code: 'processing_failed', message } };
  }
  // Every error is checked: when a program cannot be started because files have run out, only its cause tells.
  const lack = exhausted(error);
  if (error instanceof RenderError && !lack) {
    logger.info({ code: error.code }, `the input cannot be rendered: ${error.message}`);
    const { code, message, findings } = error;
    return { state: 'failed', failure: { code, message: message.slice(0, 1024), findings } };
  }
  if (error instanceof AssetError && error.code === 'input_too_large') {
    return { state: 'failed', failure: { code: 'input_too_large', message: error.message } };
  }
  if (error instanceof AssetError && error.code === 'input_missing') {
    logger.info(error.message);
    return { state: 'failed', failure: { code: 'processing_failed', message: error.message } };
  }
  logger.error({ err: error }, `attempt failed: ${describeError(error)}`);
  if (error instanceof ContentCheckError || error instanceof SigningCredentialError) {
    // Callers must not learn the names of the owner's service or files.
    const step = error instanceof ContentCheckError ? 'A content check' : 'The signing of the result';
    return {
      state: 'interrupted',
      failure: { code: 'processing_failed', message: `${step} did not work.` },
    };
  }
  const transient =
    error instanceof AssetError ||
    error instanceof EngineCrashedError ||
    error instanceof EngineInterruptedError ||
    error instanceof EngineUnavailableError ||
    isSystemError(error);
  if (transient || lack) {
    const message = (transient ? describeError(error) : (lack?.message ?? '')).slice(0, 1024);
    return { state: 'interrupted', failure: { code: 'processing_failed', message } };
  }
  // A caller cannot act on details inside an engine; the log has them.
  return {
    state: 'failed',
    failure: { code: 'processing_failed', message: 'The engine could not render this input.' },
  };
}

/**
 * Detects faults of files and processes on this node (EMFILE, ENOMEM, EIO, …). Another attempt, perhaps elsewhere,
 * may succeed.
 */
function isSystemError(error: unknown): boolean {
  return typeof (error as NodeJS.ErrnoException | undefined)?.syscall === 'string';
}
