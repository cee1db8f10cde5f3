import { randomUUID } from 'node:crypto';
import { call } from '@semblance/common/grpc/client';
import type { InspectRequest } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectResponse } from '@semblance/proto/semblance/engine/v1/engine';
import { refusalOf } from './answers.ts';
import { broken } from './contract-error.ts';
import { checkedFindings } from './findings.ts';
import { asRenderFault, type RenderCallOptions, stopGone } from './render-call.ts';

/**
 * Lets the sidecar look at pictures. When it settles, the copies are gone, and the sidecar has stopped working on them
 * or `onStuck` was called.
 * @throws the signal's reason, RenderError, EngineInterruptedError, ContractError
 */
export async function inspectBySidecar(
  { capability, inputs, parameters, signal }: InspectRequest,
  { connection, exchange, times, onStuck }: RenderCallOptions,
): Promise<Findings> {
  signal.throwIfAborted();
  const inspectionId = randomUUID();
  const dir = await exchange.open(inspectionId, inputs);
  const request = { inspectionId, capability, inputs: { ...dir.inputs }, parameters: { ...parameters } };
  let answer: InspectResponse | undefined;
  try {
    signal.throwIfAborted();
    const { client } = connection;
    answer = await call(client.inspect.bind(client), request, { timeoutMs: times.silenceMs, signal });
  } catch (error) {
    throw signal.aborted ? signal.reason : asRenderFault(error);
  } finally {
    const over = answer !== undefined || (await stopGone(connection, inspectionId, times, signal));
    await dir.remove();
    if (!over) onStuck('the sidecar goes on with an inspection that is over');
  }
  signal.throwIfAborted();
  const { message } = answer;
  if (message?.$case === 'failure') throw refusalOf(capability, message.value);
  return checkedFindings(capability, message?.value) ?? broken('it sent an empty message');
}
