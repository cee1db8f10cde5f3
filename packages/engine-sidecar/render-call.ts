import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceError, status } from '@grpc/grpc-js';
import {
  EngineInterruptedError,
  RenderError,
  type RenderRequest,
  type RenderResult,
} from '@semblance/engine-api/engine';
import type { RenderResponse } from '@semblance/proto/semblance/engine/v1/engine';
import { type CheckedResult, createAnswerReader } from './answers.ts';
import type { Connection, SidecarTimes } from './connection.ts';
import { ContractError } from './contract-error.ts';
import type { Exchange } from './exchange.ts';
import { isTooLarge } from './link.ts';

/** Codes of temporary faults. An engine that ends during a render may answer CANCELLED. */
const MOMENTARY: readonly (status | undefined)[] = [
  status.UNAVAILABLE,
  status.ABORTED,
  status.CANCELLED,
  status.RESOURCE_EXHAUSTED,
];

export interface RenderCallOptions {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly times: SidecarTimes;
  /**
   * Called when the sidecar goes on with a render that is over. The render still occupies its place, so the sidecar
   * must get nothing new.
   */
  readonly onStuck: (reason: string) => void;
}

/**
 * Runs one render in the sidecar. When it settles, its files are gone, and the sidecar has stopped working on it or
 * `onStuck` was called.
 * @throws the signal's reason, RenderError, EngineInterruptedError, ContractError
 */
export async function renderBySidecar(
  request: RenderRequest,
  options: RenderCallOptions,
): Promise<RenderResult> {
  const { signal } = request;
  signal.throwIfAborted();
  const renderId = randomUUID();
  const dir = await options.exchange.open(renderId, request.inputs);
  let stuck: string | undefined;
  const onStuck = (reason: string) => {
    stuck = reason;
  };
  try {
    signal.throwIfAborted();
    const { outputFile, ...rest } = await answered(
      renderId,
      request,
      { ...options, onStuck },
      {
        inputs: { ...dir.inputs },
        outputDir: dir.output,
      },
    );
    const outputPath = await dir.take(outputFile, request.outputDir, signal);
    return { outputPath, ...rest };
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    await dir.remove().catch((error: unknown) => {
      // A render that goes on may write as fast as its files are removed, so the next client removes the rest.
      if (stuck === undefined) throw error;
    });
    // This runs in the same turn in which the render settles, so that the host first learns that the render is
    // over.
    if (stuck !== undefined) options.onStuck(stuck);
  }
}

async function answered(
  renderId: string,
  { capability, parameters, signal, onProgress }: RenderRequest,
  { connection, times, onStuck }: RenderCallOptions,
  files: { inputs: Record<string, string>; outputDir: string },
): Promise<CheckedResult> {
  const reader = createAnswerReader(capability, onProgress);
  const stream = connection.client.render({ renderId, capability, parameters: { ...parameters }, ...files });
  // After its end the iterator takes no more errors.
  stream.on('error', () => {});
  let hung = false;
  const silence = setTimeout(() => {
    hung = true;
    stream.cancel();
  }, times.silenceMs);
  const cancel = () => stream.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  let over = false;
  try {
    for await (const answer of stream as AsyncIterable<RenderResponse>) {
      silence.refresh();
      signal.throwIfAborted();
      reader.accept(answer);
    }
    over = true;
    return reader.end();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (hung) throw new EngineInterruptedError(`the sidecar said nothing for ${times.silenceMs / 1_000} s`);
    throw asRenderFault(error);
  } finally {
    clearTimeout(silence);
    signal.removeEventListener('abort', cancel);
    stream.cancel();
    if (!over && !(await stopGone(connection, renderId, times, signal)))
      onStuck('the sidecar goes on with a render that is over');
  }
}

/**
 * Waits until the sidecar has stopped working on a render or an inspection, or is dead.
 * @returns false when it goes on beyond its time. After a cancel this is not judged here: the client's host
 * measures that time and kills the client. Either way the next client offers nothing before the sidecar is done.
 */
export async function stopGone(
  connection: Connection,
  id: string,
  { endMs, deadAfterMs }: SidecarTimes,
  signal: AbortSignal,
): Promise<boolean> {
  const began = performance.now();
  for (;;) {
    // The time is measured before the call, because a slow answer does not prove that the render goes on.
    const waited = signal.aborted ? 0 : performance.now() - began;
    try {
      const { running } = await connection.health();
      if (!running.includes(id)) return true;
      if (waited > endMs) return false;
    } catch (error) {
      if ((error as ServiceError).code !== status.DEADLINE_EXCEEDED) return true;
      if (waited > deadAfterMs) return false;
    }
    await delay(20);
  }
}

/** Returns the error of a call as an engine throws it. */
export function asRenderFault(error: unknown): Error {
  if (error instanceof RenderError || error instanceof ContractError) return error;
  const { code, details = '' } = error as Partial<ServiceError>;
  if (isTooLarge(error)) return new ContractError(`the sidecar does not keep to the contract: ${details}`);
  const text = `${status[code ?? status.UNKNOWN]}: ${details || String(error)}`.slice(0, 500);
  if (MOMENTARY.includes(code)) return new EngineInterruptedError(`the sidecar could not go on (${text})`);
  return new Error(`the sidecar failed (${text})`);
}
