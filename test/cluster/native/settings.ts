import { readFileSync } from 'node:fs';
import { stringify } from 'yaml';
import { AGGREGATOR, type Certificates } from './certificates.ts';

export const NODE = 'node-1';
export const CLUSTER_DNS = '10.96.0.10';
const POD_NETWORK = '10.244.0.0/24';

export type Paths = { dir: string; socket: string; kubeconfig: string; cgroup: string };

export function kubeconfigText(server: string, certificates: Certificates): string {
  const data = (file: string) => readFileSync(file).toString('base64');
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      { name: 'test', cluster: { server, 'certificate-authority-data': data(certificates.authority) } },
    ],
    users: [
      {
        name: 'admin',
        user: {
          'client-certificate-data': data(certificates.admin.cert),
          'client-key-data': data(certificates.admin.key),
        },
      },
    ],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    'current-context': 'test',
  });
}

export const etcdArgs = (dir: string) => [
  `--data-dir=${dir}/etcd`,
  '--listen-client-urls=http://127.0.0.1:2379',
  '--advertise-client-urls=http://127.0.0.1:2379',
  '--listen-peer-urls=http://127.0.0.1:2380',
  '--log-level=warn',
  '--log-outputs=stderr',
  // The data needs no durability, because it is thrown away with the cluster.
  '--unsafe-no-fsync',
];

export const apiserverArgs = (address: string, certificates: Certificates) => [
  '--etcd-servers=http://127.0.0.1:2379',
  '--secure-port=6443',
  `--advertise-address=${address}`,
  `--tls-cert-file=${certificates.apiserver.cert}`,
  `--tls-private-key-file=${certificates.apiserver.key}`,
  `--client-ca-file=${certificates.authority}`,
  `--kubelet-client-certificate=${certificates.admin.cert}`,
  `--kubelet-client-key=${certificates.admin.key}`,
  '--kubelet-preferred-address-types=InternalIP',
  '--service-account-issuer=https://kubernetes.default.svc',
  // APIServices, such as metrics-server's, need these flags.
  `--requestheader-client-ca-file=${certificates.aggregator.authority}`,
  `--requestheader-allowed-names=${AGGREGATOR}`,
  '--requestheader-username-headers=X-Remote-User',
  '--requestheader-group-headers=X-Remote-Group',
  '--requestheader-extra-headers-prefix=X-Remote-Extra-',
  `--proxy-client-cert-file=${certificates.aggregator.cert}`,
  `--proxy-client-key-file=${certificates.aggregator.key}`,
  `--service-account-key-file=${certificates.serviceAccountKey}`,
  `--service-account-signing-key-file=${certificates.serviceAccountKey}`,
  '--service-cluster-ip-range=10.96.0.0/16',
  '--authorization-mode=Node,RBAC',
  '--allow-privileged=true',
  '--profiling=false',
];

export const controllerManagerArgs = ({ kubeconfig }: Paths, certificates: Certificates) => [
  `--kubeconfig=${kubeconfig}`,
  `--service-account-private-key-file=${certificates.serviceAccountKey}`,
  `--root-ca-file=${certificates.authority}`,
  '--use-service-account-credentials',
  '--leader-elect=false',
];

export const proxyArgs = ({ kubeconfig }: Paths) => [
  `--kubeconfig=${kubeconfig}`,
  `--hostname-override=${NODE}`,
  `--cluster-cidr=${POD_NETWORK}`,
  // The connection table belongs to the machine, so its size must not be changed.
  '--conntrack-max-per-core=0',
];

/** Pods have point-to-point links, because traffic over a bridge between a Pod and a Service may bypass iptables. */
export const cniText = () =>
  JSON.stringify({
    cniVersion: '0.4.0',
    name: 'pods',
    plugins: [
      {
        type: 'ptp',
        ipMasq: true,
        ipam: {
          type: 'host-local',
          ranges: [[{ subnet: POD_NETWORK }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  });

/**
 * Returns containerd's settings. Without CAP_SYS_RESOURCE a container cannot get an OOM score below that of this
 * process.
 */
export const containerdText = ({ dir, socket }: Paths, pause: string, plugins: string) => `version = 2
root = ${JSON.stringify(`${dir}/containerd/root`)}
state = ${JSON.stringify(`${dir}/containerd/state`)}
[grpc]
  address = ${JSON.stringify(socket)}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = ${JSON.stringify(pause)}
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = ${JSON.stringify(plugins)}
    conf_dir = ${JSON.stringify(`${dir}/cni`)}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`;

export const kubeletText = ({ socket, cgroup }: Paths, certificates: Certificates) =>
  stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    containerRuntimeEndpoint: `unix://${socket}`,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${cgroup}`,
    failSwapOn: false,
    failCgroupV1: false,
    oomScoreAdj: 0,
    clusterDNS: [CLUSTER_DNS],
    clusterDomain: 'cluster.local',
    resolvConf: '',
    authentication: {
      anonymous: { enabled: false },
      // metrics-server, for example, authenticates with the token of a service account.
      webhook: { enabled: true },
      x509: { clientCAFile: certificates.authority },
    },
    authorization: { mode: 'AlwaysAllow' },
    // The tests must also run on a machine that is nearly full, as a build machine may be.
    evictionHard: { 'nodefs.available': '1%', 'imagefs.available': '1%', 'memory.available': '100Mi' },
    // Images must not be deleted to make room, because nothing here can fetch them again.
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    // Changes reach mounted Secrets and ConfigMaps within seconds.
    syncFrequency: '10s',
    shutdownGracePeriod: '0s',
  });

export const kubeletArgs = ({ dir, kubeconfig }: Paths, address: string) => [
  `--config=${dir}/kubelet.yaml`,
  `--kubeconfig=${kubeconfig}`,
  `--root-dir=${dir}/kubelet`,
  `--cert-dir=${dir}/kubelet-pki`,
  `--hostname-override=${NODE}`,
  `--node-ip=${address}`,
];
