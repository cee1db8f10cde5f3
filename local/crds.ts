import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  CustomObjectsApi,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  PatchStrategy,
} from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';

/** Where the resource definitions are. */
const CRDS = fileURLToPath(new URL('../crds', import.meta.url));
const FIELD_MANAGER = 'semblance-local';

type Definition = KubernetesObject & {
  spec?: { group: string; names: { plural: string }; versions: { name: string; served: boolean }[] };
  status?: { conditions?: { type: string; status: string; message?: string }[] };
};

/**
 * Applies (server-side) every definition in crds/*.yaml and the namespace, and waits until the API serves them.
 * What is there already and equal is left untouched.
 */
export async function applyCrds(options: {
  kubeconfig: string;
  namespace?: string;
  signal?: AbortSignal;
}): Promise<void> {
  const config = new KubeConfig();
  config.loadFromFile(options.kubeconfig);
  const api = KubernetesObjectApi.makeApiClient(config);
  const apply = (object: KubernetesObject) =>
    api.patch(object, undefined, undefined, FIELD_MANAGER, true, PatchStrategy.ServerSideApply);

  const definitions: Definition[] = [];
  for (const file of (await readdir(CRDS)).filter((name) => name.endsWith('.yaml')).sort()) {
    for (const document of parseAllDocuments(await readFile(join(CRDS, file), 'utf8'))) {
      if (document.errors.length > 0)
        throw new Error(`crds/${file} is not YAML`, { cause: document.errors[0] });
      const object = document.toJS() as Definition | null;
      if (object) definitions.push(object);
    }
  }
  if (options.namespace) {
    definitions.push({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: options.namespace } });
  }
  await Promise.all(definitions.map(apply));
  await Promise.all(
    definitions
      .filter(({ kind }) => kind === 'CustomResourceDefinition')
      .map((definition) => established(config, definition, options.signal)),
  );
}

async function established(config: KubeConfig, definition: Definition, signal?: AbortSignal): Promise<void> {
  const api = KubernetesObjectApi.makeApiClient(config);
  const name = definition.metadata?.name ?? '';
  for (const deadline = Date.now() + 30_000; ; ) {
    const { status } = (await api.read({
      apiVersion: definition.apiVersion,
      kind: definition.kind,
      metadata: { name },
    })) as Definition;
    const condition = (type: string) => status?.conditions?.find((candidate) => candidate.type === type);
    // Established is said a moment before the storage answers, so ask that as well.
    if (condition('Established')?.status === 'True' && (await isServed(config, definition))) return;
    const refused = condition('NamesAccepted');
    if (refused?.status === 'False') throw new Error(`the cluster refuses ${name}: ${refused.message}`);
    if (Date.now() > deadline)
      throw new Error(`the cluster does not serve ${name} 30 s after it was applied`);
    await delay(50, undefined, { signal });
  }
}

async function isServed(config: KubeConfig, { spec }: Definition): Promise<boolean> {
  const api = config.makeApiClient(CustomObjectsApi);
  try {
    for (const { name, served } of spec?.versions ?? []) {
      if (!spec || !served) continue;
      await api.listClusterCustomObject({
        group: spec.group,
        version: name,
        plural: spec.names.plural,
        limit: 1,
      });
    }
    return true;
  } catch (error) {
    // 404: not routed yet; 429: "storage is (re)initializing".
    const { code } = error as { code?: number };
    if (code === 404 || code === 429) return false;
    throw error;
  }
}
