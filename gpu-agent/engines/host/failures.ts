import { DeviceGoneError, deviceFaultOf } from '@semblance/engine-api/device-fault';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import type { FromEngine } from './protocol.ts';

/** The engine's process died, or was killed, during the render. Another process may succeed. */
export class EngineCrashedError extends Error {
  override readonly name = 'EngineCrashedError';
  readonly code = 'engine_crashed';
  readonly retryable = true;
}

/** The engine did not start or did not warm up. */
export class EngineStartError extends Error {
  override readonly name = 'EngineStartError';
  readonly code = 'engine_start_failed';
  readonly retryable = true;
}

/** An error inside the engine that is not a RenderError. Its message is for the log, not for the owner of the job. */
class EngineFaultError extends Error {
  override readonly name = 'EngineFaultError';
  readonly code = 'engine_fault';
  readonly retryable = false;
}

type FailureMessage = Extract<FromEngine, { type: 'error' }>;

/**
 * Returns whether the device of the process had a fault. Only an error without a code, which is the engine's own
 * text, tells that.
 */
export function isSpent({ code, message }: FailureMessage): boolean {
  return code === undefined && deviceFaultOf(message) !== undefined;
}

export function renderFailure(message: FailureMessage): Error {
  if (!message.code) {
    // If the device had no fault, the input can be the cause.
    const fault = deviceFaultOf(message.message);
    if (fault === 'gone') return new DeviceGoneError(message.message);
    if (fault === 'full') return new EngineInterruptedError("The memory of the engine's device was full.");
    if (fault === 'broken') return new EngineInterruptedError('The device of the engine failed.');
    return new EngineFaultError(message.message);
  }
  if (message.code === 'engine_interrupted') return new EngineInterruptedError(message.message);
  return new RenderError(message.code, message.message, { findings: message.findings });
}
