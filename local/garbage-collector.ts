import { setTimeout as delay } from 'node:timers/promises';
import {
  ApiException,
  KubeConfig,
  KubernetesObjectApi,
  type V1OwnerReference,
} from '@kubernetes/client-node';
import {
  createKubeClient,
  createReflector,
  isKubeError,
  type KubeClient,
  type KubeObject,
  type Reflector,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';

const core = (plural: string, kind: string): ResourceDescriptor<KubeObject> => ({
  group: '',
  version: 'v1',
  plural,
  kind,
});
const KINDS: readonly ResourceDescriptor<KubeObject>[] = [
  RENDERJOB_RESOURCE,
  LIVESESSION_RESOURCE,
  GPUAGENT_RESOURCE,
  AGENTPOOL_RESOURCE,
  core('configmaps', 'ConfigMap'),
  core('pods', 'Pod'),
];
const SWEEP_MS = 500;
/** Time for which an owner of another kind counts as present without another look. */
const PRESENT_MS = 5_000;

interface Watched {
  readonly resource: ResourceDescriptor<KubeObject>;
  readonly reflector: Reflector<KubeObject>;
}

/**
 * Does what the garbage collector of kube-controller-manager does, for the resources of Semblance, ConfigMaps and Pods
 * of a namespace: deletes objects whose owners are gone, and ends deletions with `--cascade=orphan` and
 * `--cascade=foreground`, which the API server leaves to it. It works until the signal aborts.
 *
 * The stack has no kube-controller-manager: no archive of released binaries has one for every system that runs the
 * stack, and building it takes longer than all of the rest.
 */
export async function collectGarbage(options: {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly signal: AbortSignal;
  /** Called with each fault of the API other than a race with another client. */
  readonly onFault: (error: unknown) => void;
}): Promise<void> {
  const { kubeconfig, namespace, signal, onFault } = options;
  const client = createKubeClient({ kubeconfigPath: kubeconfig, fieldManager: 'semblance-local', signal });
  const logger = silentLogger();
  const watched = KINDS.map((resource) => ({
    resource,
    reflector: createReflector({ client, resource, namespace, logger }),
  }));
  const running = watched.map(({ reflector }) => reflector.run(signal));
  try {
    await Promise.all(watched.map(({ reflector }) => reflector.waitForSync(signal)));
    const collector = createCollector(client, watched, ownersOf(kubeconfig, namespace));
    for (;;) {
      await collector.sweep(onFault);
      await delay(SWEEP_MS, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await Promise.all(running);
    await client.close();
  }
}

function createCollector(
  client: KubeClient,
  watched: readonly Watched[],
  isPresent: (owner: V1OwnerReference) => Promise<boolean>,
) {
  const refOf = ({ metadata }: KubeObject) => ({
    namespace: metadata.namespace,
    name: metadata.name as string,
  });

  const dependentsOf = (owner: KubeObject) =>
    watched.flatMap(({ resource, reflector }) =>
      reflector
        .list()
        .filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid))
        .map((object) => ({ resource, object })),
    );

  /** Changes metadata, unless the object has changed since it was read: then the next sweep looks again. */
  const change = (resource: ResourceDescriptor<KubeObject>, object: KubeObject, metadata: object) =>
    client.mergePatch(resource, refOf(object), {
      metadata: { ...metadata, resourceVersion: object.metadata.resourceVersion },
    });

  const withoutFinalizer = (object: KubeObject, finalizer: string) => ({
    finalizers: object.metadata.finalizers?.filter((each) => each !== finalizer),
  });

  async function orphanDependents(resource: ResourceDescriptor<KubeObject>, owner: KubeObject) {
    for (const dependent of dependentsOf(owner)) {
      const ownerReferences = dependent.object.metadata.ownerReferences?.filter(
        ({ uid }) => uid !== owner.metadata.uid,
      );
      await change(dependent.resource, dependent.object, { ownerReferences });
    }
    await change(resource, owner, withoutFinalizer(owner, 'orphan'));
  }

  async function deleteDependentsFirst(resource: ResourceDescriptor<KubeObject>, owner: KubeObject) {
    const dependents = dependentsOf(owner);
    for (const { resource: kind, object } of dependents) {
      if (!object.metadata.deletionTimestamp)
        await client.delete(kind, refOf(object), { uid: object.metadata.uid });
    }
    if (dependents.length === 0) await change(resource, owner, withoutFinalizer(owner, 'foregroundDeletion'));
  }

  async function hasOwner(object: KubeObject): Promise<boolean> {
    for (const owner of object.metadata.ownerReferences ?? []) {
      if (watched.some(({ reflector }) => reflector.byUid(owner.uid)) || (await isPresent(owner)))
        return true;
    }
    return false;
  }

  async function collect(resource: ResourceDescriptor<KubeObject>, object: KubeObject): Promise<void> {
    const { deletionTimestamp, finalizers, ownerReferences, uid } = object.metadata;
    if (deletionTimestamp && finalizers?.includes('orphan')) await orphanDependents(resource, object);
    else if (deletionTimestamp && finalizers?.includes('foregroundDeletion'))
      await deleteDependentsFirst(resource, object);
    else if (!deletionTimestamp && ownerReferences?.length && !(await hasOwner(object)))
      await client.delete(resource, refOf(object), { uid });
  }

  return {
    async sweep(onFault: (error: unknown) => void): Promise<void> {
      for (const { resource, reflector } of watched) {
        for (const object of reflector.list()) {
          await collect(resource, object).catch((error) => {
            if (!isKubeError(error, 'conflict', 'not_found')) onFault(error);
          });
        }
      }
    },
  };
}

/** Returns a look at the API itself for an owner of any kind, remembered for a while when it is there. */
function ownersOf(kubeconfig: string, namespace: string) {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const api = KubernetesObjectApi.makeApiClient(config);
  const seen = new Map<string, number>();
  return async ({ apiVersion, kind, name, uid }: V1OwnerReference): Promise<boolean> => {
    if (performance.now() < (seen.get(uid) ?? 0)) return true;
    seen.delete(uid);
    try {
      const found = await api.read({ apiVersion, kind, metadata: { name, namespace } });
      if (found.metadata?.uid !== uid) return false;
    } catch (error) {
      if (isAbsence(error, name)) return false;
      // Nobody can know whether an owner of a kind that the API does not serve exists, so it counts as present.
    }
    seen.set(uid, performance.now() + PRESENT_MS);
    return true;
  };
}

/** Returns whether the API answers that it has no object of that name, and not that it has no such kind. */
function isAbsence(error: unknown, name: string): boolean {
  if (!(error instanceof ApiException) || error.code !== 404) return false;
  try {
    const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    return status?.details?.name === name;
  } catch {
    return false;
  }
}
