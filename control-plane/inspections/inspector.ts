import { describeError } from '@semblance/common/errors';
import { cutFindings, inFields } from '@semblance/common/findings';
import { call } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { clip } from '@semblance/common/plain-text';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import type { ObjectStore } from '@semblance/objects/store';
import type { InspectRequest, InspectResponse } from '@semblance/proto/semblance/agent/v1/inspection';
import type { Inspection } from '@semblance/proto/semblance/control/v1/control';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { type AgentCalls, firstAnswer, withInspectionClient } from './ask-agents.ts';
import { readyFor } from './ready-agents.ts';
import { createTurns } from './turns.ts';

/** Longest time of an inspection with all its waits, in ms. */
const INSPECTION_MS = 5_000;
/** Lifetime of the links to the pictures, in seconds. */
const LINK_SECONDS = 60;
const MAX_MESSAGE = 1_024;

/** Why nothing was looked at, as callers read it. */
const NOT_INSPECTED = {
  busy: 'All agents are busy with renders or other inspections. Ask again, or submit without an inspection.',
  failed: 'The inspection did not work. Ask again, or submit without an inspection.',
  no_agent: 'No agent is ready for this capability now. A submit waits for one.',
  no_picture: 'None of the inputs is a picture. Videos and sound are not inspected.',
  timed_out: `The inspection took longer than ${INSPECTION_MS / 1_000} s. Ask again, or submit without an inspection.`,
  unsupported: 'The engine of this capability does not inspect pictures.',
} as const;
export type NotInspectedReason = keyof typeof NOT_INSPECTED;

/** A job that was checked as a submit is. */
export interface InspectedJob {
  readonly accountId: string;
  readonly capability: Capability;
  /** Input role → file key. */
  readonly inputs: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Asks one agent. @throws ServiceError */
export type AskForInspection = (
  address: string,
  request: InspectRequest,
  signal: AbortSignal,
  agent: GpuAgent,
) => Promise<InspectResponse>;

export interface InspectorOptions extends AgentCalls {
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly objects: Pick<ObjectStore, 'signGet'>;
  readonly logger: Logger;
  /** Default: over gRPC. */
  readonly ask?: AskForInspection | undefined;
  /** Default {@link INSPECTION_MS}. */
  readonly limitMs?: number | undefined;
}

/**
 * Returns what an agent finds out about the pictures of a job. Each account has one inspection under way; its others
 * wait for their turn.
 * @param caller aborts when nobody waits any more
 * @throws the caller's reason
 */
export type Inspect = (job: InspectedJob, caller: AbortSignal) => Promise<Inspection>;

export function createInspector(options: InspectorOptions): Inspect {
  const { agents, logger, limitMs = INSPECTION_MS } = options;
  const ask = options.ask ?? askOverGrpc(options);
  const inTurn = createTurns();

  async function inspected(request: InspectRequest, job: InspectedJob, signal: AbortSignal) {
    const ready = readyFor(agents.list(), job.capability);
    if (ready.length === 0) return notInspected('no_agent');
    const found = await firstAnswer(
      ready,
      (address, agent) => ask(address, request, signal, agent),
      'inspect',
      // Who asks wants the price, which is known already: it does not wait for room.
      { logger, signal, roomWaitMs: 0 },
    );
    if ('answer' in found) return answerOf(found.answer, job.capability);
    const most = (['busy', 'timed_out', 'failed', 'unsupported'] as const).find((one) =>
      found.silences.has(one),
    );
    return notInspected(most ?? 'failed');
  }

  return async (job, caller) => {
    const pictures = picturesOf(job);
    if (pictures.length === 0) return notInspected('no_picture');
    const late = AbortSignal.timeout(limitMs);
    const signal = AbortSignal.any([caller, late]);
    try {
      return await inTurn(job.accountId, signal, async () => {
        const request = await requestFor(job, pictures, options.objects);
        return inspected(request, job, signal);
      });
    } catch (error) {
      caller.throwIfAborted();
      if (late.aborted) return notInspected('timed_out');
      logger.error({ err: error }, `cannot inspect: ${describeError(error)}`);
      return notInspected('failed');
    }
  };
}

function picturesOf({ capability, inputs }: InspectedJob): [role: string, key: string][] {
  const roles = inputsOf(capability);
  return Object.entries(inputs).filter(([role]) => roles[role]?.kind === 'image');
}

async function requestFor(
  { capability, parameters }: InspectedJob,
  pictures: readonly [role: string, key: string][],
  objects: Pick<ObjectStore, 'signGet'>,
): Promise<InspectRequest> {
  const links = pictures.map(async ([role, key]) => {
    const url = await objects.signGet(key, { expiresInSeconds: LINK_SECONDS, audience: 'internal' });
    return [role, { url, maxBytes: 0n, key }] as const;
  });
  const inputs = Object.fromEntries(await Promise.all(links));
  return { inspectionId: newId(''), capability, parameters: { ...parameters }, inputs };
}

function answerOf({ findings, refusal }: InspectResponse, capability: Capability): Inspection {
  const details = findings && toldFindings(findings, capability);
  if (!refusal) return { outcome: { $case: 'inspected', value: { details } } };
  const error = { code: refusal.code, message: clip(refusal.message, MAX_MESSAGE) };
  return { outcome: { $case: 'refused', value: { error, details } } };
}

/** Returns an agent's findings as the record of a job would have them. */
function toldFindings(said: Findings, capability: Capability): Findings {
  return inFields(cutFindings(said), capability);
}

function notInspected(reason: NotInspectedReason): Inspection {
  return { outcome: { $case: 'notInspected', value: { reason, message: NOT_INSPECTED[reason] } } };
}

function askOverGrpc(calls: AgentCalls): AskForInspection {
  return (address, request, signal, agent) =>
    withInspectionClient(calls, { address, agent, signal }, (client) =>
      call(client.inspect.bind(client), request, { timeoutMs: INSPECTION_MS, signal }),
    );
}
