import type { Registry } from 'prom-client';
import { createReflector, type KubeClient } from '#common/kube/index.ts';
import type { Logger } from '#common/logging.ts';
import { AGENTPOOL_RESOURCE, type AgentPool } from '#crds/gen/agentpools.ts';
import { GPUAGENT_RESOURCE, type GpuAgent } from '#crds/gen/gpuagents.ts';
import { RENDERJOB_RESOURCE, type RenderJob } from '#crds/gen/renderjobs.ts';

/** Local copies of what the control plane follows in the cluster. */
export function createReflectors(options: {
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
  readonly registry: Registry;
}) {
  const { kube, namespace, logger, registry } = options;
  const common = { client: kube, namespace, logger, registry };
  return {
    reflector: createReflector<RenderJob>({ ...common, resource: RENDERJOB_RESOURCE }),
    agents: createReflector<GpuAgent>({ ...common, resource: GPUAGENT_RESOURCE }),
    pools: createReflector<AgentPool>({ ...common, resource: AGENTPOOL_RESOURCE }),
  };
}
