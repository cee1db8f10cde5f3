import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createKubeClient, type KubeClient } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import type { StackFile } from './stack-process.ts';

/** Fields of a RenderJob that the suites read. */
export interface RenderJobView {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly generation: number;
    readonly finalizers?: readonly string[];
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly phase?: string;
    readonly attempt?: number;
    readonly agent?: string;
    readonly progress?: string;
    readonly queuePosition?: number;
    readonly queueLength?: number;
    readonly observedGeneration?: number;
    readonly startTime?: string;
    readonly completionTime?: string;
    readonly output?: { readonly key: string; readonly contentType: string; readonly sizeBytes: number };
    readonly failure?: { readonly code: string; readonly message: string };
    readonly conditions?: readonly Condition[];
  };
}

export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

export interface Kubectl {
  /**
   * Runs the real kubectl in the stack's namespace. Resolves with its standard output, rejects with its standard
   * error.
   */
  (args: readonly string[], input?: string): Promise<string>;
  /**
   * Returns the RenderJob, or undefined when there is none. It does not use kubectl, because waiting polls many
   * times a second.
   */
  renderJob(name: string): Promise<RenderJobView | undefined>;
  /** Creates a resource from the document. */
  apply(document: unknown): Promise<void>;
  /** Runs `kubectl patch --type merge`. */
  patch(kind: string, name: string, change: unknown): Promise<void>;
}

export function kubectlOf(read: () => StackFile): Kubectl {
  let client: KubeClient | undefined;
  const run = async (args: readonly string[], input?: string): Promise<string> => {
    const { kubectl: binary } = await resolveTools(['kubectl']);
    const { kubeconfig, namespace } = read();
    return new Promise((resolve, reject) => {
      const child = execFile(
        binary,
        // Without a cache every call would first discover the kinds of the server.
        ['--namespace', namespace, '--cache-dir', join(dirname(kubeconfig), 'kubectl-cache'), ...args],
        {
          env: { PATH: process.env.PATH, HOME: '/nonexistent', KUBECONFIG: kubeconfig },
          timeout: 60_000,
          // The output may hold thousands of complete RenderJobs.
          maxBuffer: 256 * 1024 * 1024,
        },
        (error, stdout, stderr) =>
          error
            ? reject(new Error(`kubectl ${args.join(' ')}: ${stderr || error.message}`))
            : resolve(stdout),
      );
      child.stdin?.on('error', () => {});
      child.stdin?.end(input ?? '');
    });
  };
  return Object.assign(run, {
    async renderJob(name: string) {
      const { kubeconfig, namespace } = read();
      client ??= createKubeClient({ kubeconfigPath: kubeconfig, fieldManager: 'semblance-suite' });
      return (await client.find(RENDERJOB_RESOURCE, { namespace, name })) as RenderJobView | undefined;
    },
    async apply(document: unknown) {
      await run(['create', '-f', '-'], JSON.stringify(document));
    },
    async patch(kind: string, name: string, change: unknown) {
      await run(['patch', kind, name, '--type', 'merge', '-p', JSON.stringify(change)]);
    },
  });
}

/** Returns the condition of that type. */
export function conditionOf(job: RenderJobView | undefined, type: string): Condition | undefined {
  return job?.status?.conditions?.find((condition) => condition.type === type);
}
