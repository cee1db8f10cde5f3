import { createReflector, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Registry } from 'prom-client';

/** Creates the local copies of the resources that the control plane follows. */
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
