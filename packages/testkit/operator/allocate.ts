import { randomBytes } from 'node:crypto';
import { call, createClient } from '@semblance/common/grpc/client';
import { type KubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import { ADDRESS_ANNOTATION, ELECTION_LEASE } from '@semblance/operator/app';
import {
  type AllocateRequest,
  type AllocateResponse,
  AllocationServiceClient,
} from '@semblance/proto/semblance/operator/v1/operator';

export function allocationOf(session: string, more: Partial<AllocateRequest> = {}): AllocateRequest {
  return {
    sessionId: session,
    capability: 'voice',
    account: 'acc-1',
    maxDurationSeconds: 600,
    connectDeadlineSeconds: 60,
    settings: {},
    inputs: {},
    requestId: `request-${session}`,
    ticketSha256: randomBytes(32),
    ...more,
  };
}

/** Client of the leading operator, found by its Lease, as a control plane uses it. */
export interface Allocations {
  /** Returns the address of the leader; undefined: there is none. */
  address(): Promise<string | undefined>;
  /** Asks the leader for a slot. @throws ServiceError */
  allocate(request: AllocateRequest, signal?: AbortSignal): Promise<AllocateResponse>;
  session(name: string): Promise<LiveSession | undefined>;
  list(): Promise<LiveSession[]>;
  close(): void;
}

export function createAllocations(of: {
  readonly client: KubeClient;
  readonly namespace: string;
}): Allocations {
  const { client, namespace } = of;
  const clients = new Map<string, AllocationServiceClient>();
  let known: string | undefined;

  const address = async () => {
    const lease = await client.find(LEASE_RESOURCE, { namespace, name: ELECTION_LEASE });
    known = lease?.metadata.annotations?.[ADDRESS_ANNOTATION];
    return known;
  };

  return {
    address,
    async allocate(request, signal) {
      known ??= await address();
      if (known === undefined) throw new Error('nobody leads');
      const at = known;
      const leader = clients.get(at) ?? createClient(AllocationServiceClient, at);
      clients.set(at, leader);
      try {
        return await call(leader.allocate.bind(leader), request, { timeoutMs: 20_000, signal });
      } catch (error) {
        if (known === at) known = undefined;
        throw error;
      }
    },
    session: (name) => client.find(LIVESESSION_RESOURCE, { namespace, name }),
    list: async () => (await client.list(LIVESESSION_RESOURCE, { namespace })).items,
    close() {
      for (const each of clients.values()) each.close();
    },
  };
}
