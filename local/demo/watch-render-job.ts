import { KubeConfig, Watch } from '@kubernetes/client-node';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';

/**
 * Follows one RenderJob at the Kubernetes API until `signal` aborts. A broken watch is opened again, and every
 * watch begins with the present state.
 */
export function watchRenderJob(options: {
  kubeconfig: string;
  namespace: string;
  name: string;
  signal: AbortSignal;
  onChange: (job: RenderJob) => void;
}): void {
  const { kubeconfig, namespace, name, signal, onChange } = options;
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const watch = new Watch(config);
  const path = `/apis/semblance.dev/v1alpha1/namespaces/${namespace}/renderjobs`;
  const open = async () => {
    if (signal.aborted) return;
    const request = await watch.watch(
      path,
      { fieldSelector: `metadata.name=${name}` },
      (type: string, object: RenderJob) => {
        if (type === 'ADDED' || type === 'MODIFIED') onChange(object);
      },
      () => {
        if (!signal.aborted) setTimeout(() => void open().catch(() => {}), 500).unref();
      },
    );
    signal.addEventListener('abort', () => request.abort(), { once: true });
  };
  // The RenderJob is only shown beside the job's status, so the demo continues without it.
  void open().catch(() => {});
}
