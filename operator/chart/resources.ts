import type { KubeObject, ResourceDescriptor } from '@semblance/common/kube/index';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';

export const PODS: ResourceDescriptor<KubeObject> = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' };

export const DEPLOYMENTS: ResourceDescriptor<KubeObject> = {
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
};

/** All custom resources of Semblance in a namespace; dependent kinds come first. */
export const OWN_RESOURCES: readonly ResourceDescriptor<KubeObject>[] = [
  RENDERJOB_RESOURCE,
  LIVESESSION_RESOURCE,
  AGENTPOOL_RESOURCE,
  GPUAGENT_RESOURCE,
];

/** Labels of the chart's Pods. */
export const COMPONENT_LABEL = 'app.kubernetes.io/component';
export const PRODUCT_LABEL = 'app.kubernetes.io/part-of';
export const RELEASE_LABEL = 'app.kubernetes.io/instance';
