import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  CRD_RESOURCE,
  type CustomResourceDefinition,
  createKubeClient,
  isKubeError,
  type KubeClient,
  NAMESPACE_RESOURCE,
} from '@semblance/common/kube/index';
import { parseAllDocuments } from 'yaml';

/** Folder of the resource definitions. */
const CRDS = fileURLToPath(new URL('../crds', import.meta.url));
const FIELD_MANAGER = 'semblance-local';

type Definition = CustomResourceDefinition & {
  spec: {
    group: string;
    names: { plural: string; kind: string };
    versions: { name: string; served: boolean }[];
  };
};

/**
 * Applies every definition in crds/*.yaml and the namespace (server-side apply), and waits until the API serves them.
 */
export async function applyCrds(options: {
  kubeconfig: string;
  namespace?: string;
  signal?: AbortSignal;
}): Promise<void> {
  const { kubeconfig, namespace, signal } = options;
  const client = createKubeClient({
    kubeconfigPath: kubeconfig,
    fieldManager: FIELD_MANAGER,
    maxRepeats: 0,
    signal,
  });
  try {
    if (namespace) await client.apply(NAMESPACE_RESOURCE, { metadata: { name: namespace } });
    await applyDefinitions(client, CRDS, signal);
  } finally {
    await client.close();
  }
}

/**
 * Applies every definition in the YAML files of a folder. Equal definitions stay untouched. They are sent as written,
 * because the serializer of `@kubernetes/client-node` drops `default`, `enum` and the validation extensions from a
 * schema.
 */
export async function applyDefinitions(
  client: KubeClient,
  folder: string,
  signal?: AbortSignal,
): Promise<void> {
  const definitions: Definition[] = [];
  for (const file of (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort()) {
    for (const document of parseAllDocuments(await readFile(join(folder, file), 'utf8'))) {
      if (document.errors.length > 0) throw new Error(`${file} is not YAML`, { cause: document.errors[0] });
      const object = document.toJS() as Definition | null;
      if (object) definitions.push(object);
    }
  }
  await Promise.all(definitions.map((definition) => client.apply(CRD_RESOURCE, definition)));
  await Promise.all(definitions.map((definition) => established(client, definition, signal)));
}

async function established(client: KubeClient, definition: Definition, signal?: AbortSignal): Promise<void> {
  const name = definition.metadata.name ?? '';
  for (const deadline = Date.now() + 30_000; ; ) {
    const { status } = await client.get(CRD_RESOURCE, { name }, { signal });
    const condition = (type: string) => status?.conditions?.find((candidate) => candidate.type === type);
    // Established is reported a moment before the storage answers, so that is checked too.
    if (condition('Established')?.status === 'True' && (await isServed(client, definition))) return;
    const refused = condition('NamesAccepted');
    if (refused?.status === 'False') throw new Error(`the cluster refuses ${name}: ${refused.message}`);
    if (Date.now() > deadline)
      throw new Error(`the cluster does not serve ${name} 30 s after it was applied`);
    await delay(50, undefined, { signal });
  }
}

async function isServed(client: KubeClient, { spec }: Definition): Promise<boolean> {
  const { group, names, versions } = spec;
  try {
    for (const { name, served } of versions) {
      if (served) await client.list({ group, version: name, plural: names.plural, kind: names.kind });
    }
    return true;
  } catch (error) {
    // 404: the route does not exist yet; 429: "storage is (re)initializing".
    if (isKubeError(error, 'not_found', 'too_many_requests')) return false;
    throw error;
  }
}
