import './heap.ts';
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { ConfigError, loadConfig } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { createKubeClient } from '@semblance/common/kube/index';
import { createLogger } from '@semblance/common/logging';
import { runService } from '@semblance/common/service';
import { openObjectStore } from '@semblance/objects/open';
import { checkAtStart } from '@semblance/objects/start-check';
import { FIELD_MANAGER, startOperator } from './app.ts';
import { endWithNamespace } from './chart/namespace-end.ts';
import { operatorShape } from './config.ts';

/** Time to end, in ms: for the handover, and to clear a namespace that is being deleted of thousands of jobs. */
const END_MS = 25_000;

const logger = createLogger({ service: 'operator', level: process.env.SEMBLANCE_LOG_LEVEL || 'info' });

const main = async () => {
  const config = loadConfig(operatorShape);
  const listen = config.SEMBLANCE_OPERATOR_LISTEN;
  const advertise = config.SEMBLANCE_OPERATOR_ADVERTISE;
  if (['0.0.0.0', '::', '*'].includes(listen.host) && !advertise) {
    throw new ConfigError(
      'The environment is not usable:\n  SEMBLANCE_OPERATOR_ADVERTISE: must say where others reach the operator when it listens on every address',
    );
  }
  if (!config.SEMBLANCE_INTERNAL_TOKEN && !config.SEMBLANCE_TLS_DIR)
    logger.warn('SEMBLANCE_INTERNAL_TOKEN is not set: anyone who reaches the gRPC port may call it');
  const objects = openObjectStore({
    url: config.SEMBLANCE_OBJECTS_URL,
    signingKey: config.SEMBLANCE_OBJECTS_SIGNING_KEY,
    publicUrl: config.SEMBLANCE_PUBLIC_URL,
    internalUrl: config.SEMBLANCE_OBJECTS_INTERNAL_URL,
  });
  const stored = checkAtStart(objects, logger);
  const tls = await openTls({ dir: config.SEMBLANCE_TLS_DIR, component: 'operator', logger });
  const operator = await startOperator({
    kubeconfigPath: config.KUBECONFIG,
    namespace: config.SEMBLANCE_NAMESPACE,
    objects,
    ready: stored.ready,
    controlAddress: config.SEMBLANCE_CONTROL_ADDRESS,
    internalToken: config.SEMBLANCE_INTERNAL_TOKEN,
    tls,
    logger,
    identity:
      config.SEMBLANCE_OPERATOR_IDENTITY ??
      `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`.toLowerCase(),
    healthListen: config.SEMBLANCE_HEALTH_LISTEN,
    listen,
    advertise,
    concurrency: config.SEMBLANCE_OPERATOR_CONCURRENCY,
    agentRetentionMs: config.SEMBLANCE_OPERATOR_AGENT_RETENTION_SECONDS * 1_000,
    weights: config.SEMBLANCE_ACCOUNT_WEIGHTS,
    packing: config.SEMBLANCE_OPERATOR_PACKING,
    election: {
      leaseDurationMs: config.SEMBLANCE_OPERATOR_LEASE_SECONDS * 1_000,
      renewDeadlineMs: config.SEMBLANCE_OPERATOR_RENEW_DEADLINE_SECONDS * 1_000,
      retryPeriodMs: config.SEMBLANCE_OPERATOR_RENEW_SECONDS * 1_000,
    },
  });
  logger.info(
    { health: operator.healthPort, address: operator.address, namespace: config.SEMBLANCE_NAMESPACE },
    'started',
  );
  // A failure of the operator ends the process, which is then restarted.
  operator.failed.catch((error: unknown) =>
    queueMicrotask(() => {
      throw error;
    }),
  );
  return async () => {
    await operator.close();
    stored.close();
    await objects.close();
    tls?.close();
    await releaseNamespace(config.KUBECONFIG, config.SEMBLANCE_NAMESPACE);
  };
};

async function releaseNamespace(kubeconfigPath: string | undefined, namespace: string): Promise<void> {
  const client = createKubeClient({ kubeconfigPath, fieldManager: FIELD_MANAGER, requestTimeoutMs: 2_000 });
  try {
    await endWithNamespace({ client, namespace, logger });
  } catch (error) {
    // The operator may not read it, or the API is gone; it ends all the same.
    logger.debug({ err: error }, `cannot read the namespace: ${describeError(error)}`);
  } finally {
    await client.close();
  }
}

runService(logger, main, END_MS);
