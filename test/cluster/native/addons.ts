import { join } from 'node:path';
import { stringify } from 'yaml';
import { CLUSTER_DNS, NODE } from './settings.ts';

const COREFILE = `.:53 {
  errors
  ready
  cache 5
  kubernetes cluster.local in-addr.arpa {
    pods insecure
  }
}
`;

/** Returns the manifest of CoreDNS, which knows the names of the cluster and asks no other server. */
export function dnsManifest(image: string): string {
  const meta = { name: 'coredns', namespace: 'kube-system' };
  const labels = { 'k8s-app': 'kube-dns' };
  return all([
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: meta, data: { Corefile: COREFILE } },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: meta },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'coredns' },
      rules: [
        {
          apiGroups: [''],
          resources: ['services', 'pods', 'namespaces'],
          verbs: ['list', 'watch'],
        },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'coredns' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'coredns' },
      subjects: [{ kind: 'ServiceAccount', ...meta }],
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: meta,
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            serviceAccountName: 'coredns',
            // CoreDNS must stay when the node is drained, as it would on a cluster with more nodes.
            priorityClassName: 'system-node-critical',
            tolerations: [{ operator: 'Exists' }],
            dnsPolicy: 'Default',
            containers: [
              {
                name: 'coredns',
                image,
                imagePullPolicy: 'Never',
                args: ['-conf', '/etc/coredns/Corefile'],
                readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 1 },
                volumeMounts: [{ name: 'config', mountPath: '/etc/coredns' }],
              },
            ],
            volumes: [{ name: 'config', configMap: { name: 'coredns' } }],
          },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'kube-dns', namespace: 'kube-system' },
      spec: {
        selector: labels,
        clusterIP: CLUSTER_DNS,
        ports: [
          { name: 'dns', port: 53, protocol: 'UDP' },
          { name: 'dns-tcp', port: 53, protocol: 'TCP' },
        ],
      },
    },
  ]);
}

/** Returns the folder of a volume; it must exist before a Pod mounts it. */
export const volumeFolder = (dir: string, index: number) => join(dir, 'volumes', `volume-${index}`);

/**
 * Returns the manifest of a default StorageClass without a provisioner, and of its volumes, which are folders of
 * this machine.
 */
export function storageManifest(dir: string, volumes: number, node = NODE): string {
  const storageClass = 'local';
  return all([
    {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: {
        name: storageClass,
        annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
      },
      provisioner: 'kubernetes.io/no-provisioner',
      volumeBindingMode: 'WaitForFirstConsumer',
    },
    ...Array.from({ length: volumes }, (_, index) => ({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: `volume-${index}` },
      spec: {
        capacity: { storage: '100Gi' },
        accessModes: ['ReadWriteOnce', 'ReadWriteMany'],
        persistentVolumeReclaimPolicy: 'Retain',
        storageClassName: storageClass,
        local: { path: volumeFolder(dir, index) },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }] },
            ],
          },
        },
      },
    })),
  ]);
}

const all = (objects: object[]) => objects.map((object) => stringify(object)).join('---\n');
