import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { ContainerStatus, Pod } from './pod.ts';

/** Place of the volume in agents whose template mounts none `models`. */
const MODEL_DIR = '/models';
const DIR_ENV = 'SEMBLANCE_MODEL_DIR';
const SETS_DIR = '/etc/semblance/model-sets';
/** Key of a ConfigMap with a model set. */
const KEY = 'models.yaml';
/** Volume with the models. A template that has one keeps it, such as a claim that outlives Pods. */
const VOLUME = 'models';
const INIT_NAME = /^models-(\d+)$/;
/** Variables of the agent that a download needs too. */
const SHARED_ENV = /^(https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SEMBLANCE_MODEL_AUTHORIZATION)$/i;

interface Mount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

/** The fields of a container that fetching models needs. */
export interface AgentContainer {
  readonly name: string;
  readonly image?: string;
  readonly imagePullPolicy?: string;
  readonly securityContext?: unknown;
  readonly env?: readonly { readonly name: string; readonly value?: string; readonly valueFrom?: unknown }[];
  readonly volumeMounts?: readonly Mount[];
}

/** What a Pod needs beside its template so that its models are there before its agent starts. */
export interface ModelParts {
  readonly agent: AgentContainer;
  readonly initContainers: readonly object[];
  readonly volumes: readonly object[];
}

/**
 * Returns the agent's container with its models mounted, and an init container for each set that fetches it and those
 * before it. So the status of the Pod tells how far they are.
 */
export function withModelSets(
  sets: readonly string[],
  agent: AgentContainer,
  volumes: readonly { readonly name: string }[],
): ModelParts {
  const given = agent.volumeMounts?.find(({ name }) => name === VOLUME);
  const mount = { name: VOLUME, mountPath: given?.mountPath ?? MODEL_DIR };
  const directory = agent.env?.find(({ name }) => name === DIR_ENV)?.value ?? mount.mountPath;
  const others = (agent.volumeMounts ?? []).filter(({ name }) => name !== VOLUME);
  const mounts = sets.map((_, index) => ({
    name: `model-set-${index + 1}`,
    mountPath: `${SETS_DIR}/${index + 1}`,
    readOnly: true,
  }));
  const { image, imagePullPolicy, securityContext, env = [] } = agent;
  const initContainers = sets.map((_, index) => ({
    name: `models-${index + 1}`,
    ...{ image, imagePullPolicy, securityContext },
    command: ['node', 'packages/engine-onnx/models/main.ts', 'fetch', '--dir', directory],
    args: mounts.slice(0, index + 1).map(({ mountPath }) => `${mountPath}/${KEY}`),
    env: env.filter(({ name }) => SHARED_ENV.test(name)),
    volumeMounts: [...others, mount, ...mounts],
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
    // The last lines say which file could not be fetched, and why.
    terminationMessagePolicy: 'FallbackToLogsOnError',
  }));
  return {
    agent: {
      ...agent,
      env: env.some(({ name }) => name === DIR_ENV) ? env : [...env, { name: DIR_ENV, value: directory }],
      volumeMounts: [...others, { ...mount, readOnly: true }],
    },
    initContainers,
    volumes: [
      ...(volumes.some(({ name }) => name === VOLUME) ? [] : [{ name: VOLUME, emptyDir: {} }]),
      ...sets.map((name, index) => ({ name: `model-set-${index + 1}`, configMap: { name } })),
    ],
  };
}

/** Returns the number of the model set that the Pod fetches, from 1; undefined when it fetches none. */
export function fetchedSet({ status }: Pod): number | undefined {
  const running = modelContainers(status?.initContainerStatuses).find(({ state }) => state?.running);
  return running && Number(INIT_NAME.exec(running.name)?.[1]);
}

/** Returns when the last model set was there, in Unix milliseconds; 0: there is none, or it is not. */
export function fetchedAt({ status }: Pod): number {
  const ends = modelContainers(status?.initContainerStatuses).map(
    ({ state }) => Date.parse(state?.terminated?.finishedAt ?? '') || 0,
  );
  return Math.max(0, ...ends);
}

function modelContainers(statuses: readonly ContainerStatus[] = []): readonly ContainerStatus[] {
  return statuses.filter(({ name }) => INIT_NAME.test(name));
}

/** Returns words such as `the model set faces (2 of 3)`. */
export function nameOfSet({ spec }: AgentPool, set: number): string {
  const { modelSets = [] } = spec;
  return `the model set ${modelSets[set - 1] ?? '?'} (${set} of ${modelSets.length})`;
}
