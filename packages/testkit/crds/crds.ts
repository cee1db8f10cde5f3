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

/** As read back: of any kind. */
export type Loose = KubeObject & { spec: unknown };

/** A real API with our resource definitions in a namespace of its own, and two ways to it. */
export interface ResourceRig {
  readonly namespace: string;
  readonly client: KubeClient;
  /** As a person would. @returns standard output */
  kubectl(...args: string[]): Promise<string>;
  /** Makes a resource of anything at all, as a person may write it. */
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
