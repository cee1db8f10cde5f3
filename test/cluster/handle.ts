/** A real cluster with one node, and what the tests do with it from outside. */
export interface Cluster {
  readonly kind: 'kind' | 'native';
  readonly kubeconfig: string;
  readonly node: string;
  /** Of this machine, as Pods reach it. */
  readonly hostAddress: string;
  /** Absolute paths. */
  readonly kubectl: string;
  readonly helm: string;
  /** Makes the images of these archives known to the node. */
  load(archives: readonly string[]): Promise<void>;
  /** SIGKILL for the first process of a container, by the container's id. */
  kill(container: string): Promise<void>;
  /** Ends everything and removes what was written. */
  down(): Promise<void>;
}

export type ClusterOptions = {
  /** Folder of this cluster alone; what a former run left in it is ended and removed first. */
  dir: string;
  /** How many volumes of a default StorageClass there are; 0: no StorageClass, as on a bare cluster. */
  volumes: number;
  /** Whether NetworkPolicies are enforced, where that can be chosen: kind's network always does. */
  policies: boolean;
  say: (line: string) => void;
};
