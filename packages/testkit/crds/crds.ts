import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import {
  createKubeClient,
  type KubeClient,
  type KubeObject,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { testKube } from '../servers/shared.ts';

/** Resource of any kind, as the API returns it. */
export type Loose = KubeObject & { spec: unknown };

/** A real API with our resource definitions in a namespace of its own, and two ways to it. */
export interface ResourceRig {
  readonly namespace: string;
  readonly client: KubeClient;
  /** Runs kubectl as a person would. @returns standard output */
  kubectl(...args: string[]): Promise<string>;
  /** Creates a resource with an arbitrary spec, as a person may write it. */
  create<T extends KubeObject>(resource: ResourceDescriptor<T>, spec: unknown, name?: string): Promise<Loose>;
  close(): Promise<void>;
}

export async function startResourceRig(): Promise<ResourceRig> {
  const { kubeconfigPath, namespace, close } = await testKube();
  const client = createKubeClient({ kubeconfigPath, fieldManager: 'semblance-test' });
  const { kubectl } = await resolveTools(['kubectl']);
  return {
    namespace,
    client,
    async kubectl(...args) {
      const env = { PATH: process.env.PATH, HOME: kubeconfigPath.replace(/\/[^/]*$/, '') };
      const all = ['--kubeconfig', kubeconfigPath, '-n', namespace, ...args];
      const { stdout } = await promisify(execFile)(kubectl, all, { env });
      return stdout;
    },
    create: (resource, spec, name = `made-${Math.random().toString(36).slice(2)}`) =>
      client.create(resource as unknown as ResourceDescriptor<Loose>, {
        metadata: { name, namespace },
        spec,
      }),
    async close() {
      await client.close();
      await close();
    },
  };
}
