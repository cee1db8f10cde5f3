import { certificateOf } from '@semblance/common/agent-certificate';
import {
  ADDRESSED_POD,
  addressFault,
  isKubeError,
  type KubeClient,
  type Reflector,
} from '@semblance/common/kube/index';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { CertificateOf } from '../sessions/connect.ts';

/** What the control plane needs to call the right agent, and no other address. */
export interface Callees {
  /** @throws Error when the agent states an address that is not that of its Pod, or this cannot be told */
  checkAddress(agent: GpuAgent, signal: AbortSignal): Promise<void>;
  readonly certificateOf: CertificateOf;
}

export function createCallees(options: {
  readonly kube: Pick<KubeClient, 'find'>;
  readonly namespace: string;
  readonly agents: Pick<Reflector<GpuAgent>, 'get'>;
}): Callees {
  const { kube, namespace, agents } = options;
  const certificateIn = (agent: GpuAgent | undefined, incarnation: string) =>
    agent?.status?.incarnation === incarnation ? certificateOf(agent) : undefined;
  return {
    async checkAddress(agent, signal) {
      const pod = await kube.find(ADDRESSED_POD, { name: agent.metadata.name ?? '', namespace }, { signal });
      const fault = addressFault(agent, pod);
      if (fault !== undefined) throw new Error(fault);
    },
    certificateOf: async (name, incarnation) => {
      const known = agents.get(name, namespace);
      if (known?.status?.incarnation === incarnation) return certificateIn(known, incarnation);
      // The local copy is behind, for the session was opened on this process.
      try {
        return certificateIn(await kube.find(GPUAGENT_RESOURCE, { name, namespace }), incarnation);
      } catch (error) {
        if (isKubeError(error)) return undefined;
        throw error;
      }
    },
  };
}
