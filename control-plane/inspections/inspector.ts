import { type ServiceError, status } from '@grpc/grpc-js';
import { certificateOf } from '@semblance/common/agent-certificate';
import { describeError } from '@semblance/common/errors';
import { cutFindings, inFields } from '@semblance/common/findings';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { newId } from '@semblance/common/ids';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { clip } from '@semblance/common/plain-text';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import type { ObjectStore } from '@semblance/objects/store';
import {
  InspectionServiceClient,
  type InspectRequest,
  type InspectResponse,
} from '@semblance/proto/semblance/agent/v1/inspection';
import type { Inspection } from '@semblance/proto/semblance/control/v1/control';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import type { Callees } from '../agents/callee.ts';
import { readyFor } from './ready-agents.ts';
import { createTurns } from './turns.ts';

/** Longest time of an inspection with all its waits, in ms. */
const INSPECTION_MS = 5_000;
/** Lifetime of the links to the pictures, in seconds. */
const LINK_SECONDS = 60;
/** Agents asked for one inspection. */
const MAX_AGENTS = 3;
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

export interface InspectorOptions {
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly objects: Pick<ObjectStore, 'signGet'>;
  readonly logger: Logger;
  /** Default: over gRPC. */
  readonly ask?: AskForInspection | undefined;
  /** Sent to agents with every call. */
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly checkAddress?: Callees['checkAddress'] | undefined;
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

  /** Returns the first answer of the agents. */
  async function askAgents(request: InspectRequest, job: InspectedJob, signal: AbortSignal) {
    const ready = readyFor(agents.list(), job.capability).slice(0, MAX_AGENTS);
    const reasons = new Set<NotInspectedReason>();
    for (const agent of ready) {
      const address = agent.status?.address ?? '';
      try {
        return answerOf(await ask(address, request, signal, agent), job.capability);
      } catch (error) {
        signal.throwIfAborted();
        const reason = reasonOf(error);
        reasons.add(reason);
        if (reason === 'failed') logger.warn({ address }, `cannot inspect: ${describeError(error)}`);
      }
    }
    if (ready.length === 0) return notInspected('no_agent');
    const most = (['busy', 'timed_out', 'failed', 'unsupported'] as const).find((one) => reasons.has(one));
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
        return askAgents(request, job, signal);
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

function reasonOf(error: unknown): NotInspectedReason {
  const { code } = error as ServiceError;
  if (code === status.RESOURCE_EXHAUSTED) return 'busy';
  // An agent of an earlier release has no such call.
  if (code === status.UNIMPLEMENTED) return 'unsupported';
  return code === status.DEADLINE_EXCEEDED ? 'timed_out' : 'failed';
}

function askOverGrpc(options: InspectorOptions): AskForInspection {
  const { internalToken, tls, checkAddress } = options;
  return async (address, request, signal, agent) => {
    await checkAddress?.(agent, signal);
    const secure = tls?.to('agent', certificateOf(agent));
    const client = createClient(InspectionServiceClient, address, internalToken, secure);
    try {
      return await call(client.inspect.bind(client), request, { timeoutMs: INSPECTION_MS, signal });
    } finally {
      client.close();
    }
  };
}
