/** A real cluster with one node, as the tests handle it from outside. */
export interface Cluster {
  readonly kind: 'kind' | 'native';
  readonly kubeconfig: string;
  readonly node: string;
  /** Address of this machine as Pods reach it. */
  readonly hostAddress: string;
  /** Absolute path of kubectl; `helm` is that of helm. */
  readonly kubectl: string;
  readonly helm: string;
  /** Loads the images of these archives into the node. */
  load(archives: readonly string[]): Promise<void>;
  /** Sends SIGKILL to the first process of a container. The argument is the container's id. */
  kill(container: string): Promise<void>;
  /** Ends the cluster and removes all that it wrote. */
  down(): Promise<void>;
}

export type ClusterOptions = {
  /** Folder for this cluster alone. The remains of a former run there are ended and removed first. */
  dir: string;
  /** Number of volumes of a default StorageClass; 0 for no StorageClass, as on a bare cluster. */
  volumes: number;
  /** Whether NetworkPolicies are enforced. kind's network always enforces them. */
  policies: boolean;
  say: (line: string) => void;
};
