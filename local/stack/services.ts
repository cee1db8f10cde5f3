import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Component } from '@semblance/common/grpc/tls/components';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import type { Launch } from '@semblance/common/process/child';
import { controlPlaneShape } from '@semblance/control-plane/config';
import { gatewayShape } from '@semblance/gateway/config';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { agentShape } from '@semblance/gpu-agent/settings';
import { operatorShape } from '@semblance/operator/config';
import { httpGet } from '../process/http-get.ts';
import type { ServiceSpec } from '../process/service.ts';
import { agentUser, lend } from './agent-user.ts';
import { environmentFor } from './environment.ts';
import { type PortName, reachable, type StackSettings } from './settings.ts';
import { signingCertificate } from './signing-certificate.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const FLAGS: Readonly<Record<string, readonly string[]>> = {
  'control-plane': NODE_FLAGS,
  operator: NODE_FLAGS,
  gateway: GATEWAY_FLAGS,
  'gpu-agent': AGENT_FLAGS,
};

/**
 * URLs of the servers. They are read only when needed, because the passwords of the stack's own servers exist only
 * after the first start.
 */
export type Addresses = { postgresUrl(): string; natsUrl(): Promise<string>; kubeconfig: string };

/**
 * Describes Semblance's own four services as they run on one machine.
 * @param certificates folder of each component's certificate; undefined: gRPC is not encrypted
 */
export function ownServices(
  settings: StackSettings,
  addresses: Addresses,
  certificates?: Readonly<Record<Component, string>>,
): ServiceSpec[] {
  const { listen, publicUrl, internalUrl, namespace, stateDir } = settings;
  const workDir = join(stateDir, 'agent');
  const kube = { KUBECONFIG: addresses.kubeconfig, SEMBLANCE_NAMESPACE: namespace };
  const objects = {
    SEMBLANCE_OBJECTS_URL: settings.objectsUrl,
    SEMBLANCE_OBJECTS_SIGNING_KEY: settings.signingKey,
    SEMBLANCE_PUBLIC_URL: publicUrl,
    SEMBLANCE_OBJECTS_INTERNAL_URL: internalUrl,
  };
  const service = (
    name: 'control-plane' | 'operator' | 'gateway' | 'gpu-agent',
    shape: object,
    after: string[],
    environment: () => Promise<Record<string, string>>,
    /** Changes what a process of root would get. */
    adapt: (launch: Required<Pick<Launch, 'env'>> & Launch) => Promise<Launch> = async (launch) => launch,
  ): ServiceSpec => {
    const port = settings.ports[`${name}-health` satisfies PortName];
    return {
      name,
      after,
      async launch() {
        const health = {
          SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${port}`,
          SEMBLANCE_INTERNAL_TOKEN: settings.internalToken,
        };
        const { [name === 'gpu-agent' ? 'agent' : name]: tlsDir } = certificates ?? {};
        const env = {
          // A SEMBLANCE_TLS_DIR set for the whole stack would give every service the certificate of one of them.
          ...environmentFor(Object.keys(shape), { ...process.env, SEMBLANCE_TLS_DIR: tlsDir }),
          ...(await environment()),
          ...health,
        };
        return adapt({
          command: process.execPath,
          args: [...(FLAGS[name] ?? []), join(ROOT, name, 'main.ts')],
          env,
          cwd: settings.stateDir,
        });
      },
      probe: async (signal) => {
        await httpGet({ host: '127.0.0.1', port, path: '/readyz', signal });
      },
      stopSignal: 'SIGTERM',
      // Each service limits its own shutdown to less than this, so none is killed during it: the agent takes 3 s +
      // 12 s.
      graceMs: 18_000,
      readyWithinMs: 60_000,
    };
  };
  return [
    service('control-plane', controlPlaneShape, ['postgres', 'nats', 'kube-apiserver'], async () => ({
      ...kube,
      ...objects,
      SEMBLANCE_POSTGRES_URL: addresses.postgresUrl(),
      SEMBLANCE_NATS_URL: await addresses.natsUrl(),
      SEMBLANCE_CONTROL_LISTEN: listen.control,
      SEMBLANCE_ADMIN_TOKEN: settings.adminToken,
      // Webhooks of a stack on one machine go to that machine.
      SEMBLANCE_WEBHOOK_ALLOW: process.env.SEMBLANCE_WEBHOOK_ALLOW || '127.0.0.0/8,::1/128',
    })),
    service('operator', operatorShape, ['kube-apiserver'], async () => ({
      ...kube,
      ...objects,
      // Only one operator runs here at a time, so with the same identity its successor leads without waiting for
      // the Lease to expire.
      SEMBLANCE_OPERATOR_IDENTITY: settings.agentName,
      SEMBLANCE_OPERATOR_LISTEN: listen.operator,
      SEMBLANCE_CONTROL_ADDRESS: reachable(listen.control),
    })),
    service('gateway', gatewayShape, ['control-plane'], async () => ({
      ...objects,
      SEMBLANCE_GATEWAY_LISTEN: listen.gateway,
      SEMBLANCE_CONTROL_ADDRESS: reachable(listen.control),
      SEMBLANCE_TRY_PAGE: process.env.SEMBLANCE_TRY_PAGE || 'on',
    })),
    service(
      'gpu-agent',
      agentShape,
      ['kube-apiserver'],
      async () => ({
        ...kube,
        ...(await signing(settings.stateDir)),
        SEMBLANCE_AGENT_LISTEN: listen.agent,
        SEMBLANCE_AGENT_NAME: settings.agentName,
        SEMBLANCE_AGENT_SLOTS: settings.agentSlots,
        SEMBLANCE_AGENT_WORK_DIR: workDir,
        // Ctrl-C waits at most this long for a render; the job continues at the next start.
        SEMBLANCE_AGENT_DRAIN_SECONDS: '3',
      }),
      async (launch) => {
        const user = await agentUser({ stateDir, workDir, main: join(ROOT, 'gpu-agent', 'main.ts') });
        if (!user) return launch;
        const lent = await lend({ stateDir }, user, { ...launch.env, KUBECONFIG: addresses.kubeconfig });
        return { ...launch, env: { ...launch.env, ...lent }, cwd: workDir, user };
      },
    ),
  ];
}

/**
 * Returns the agent's settings for signing outputs; empty when the user set them. Otherwise they name this stack's
 * own certificate.
 */
async function signing(stateDir: string): Promise<Record<string, string>> {
  const { SEMBLANCE_PROVENANCE_CERTIFICATE: set, SEMBLANCE_PROVENANCE_KEY: key } = process.env;
  if (set || key) return {};
  const { certificateFile, keyFile } = await signingCertificate(join(stateDir, 'provenance'));
  return { SEMBLANCE_PROVENANCE_CERTIFICATE: certificateFile, SEMBLANCE_PROVENANCE_KEY: keyFile };
}
