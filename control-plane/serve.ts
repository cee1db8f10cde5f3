import { loadConfig } from '@semblance/common/config';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { createRegistry, startHealthServer } from '@semblance/common/health';
import { createKubeClient } from '@semblance/common/kube/index';
import { createLogger } from '@semblance/common/logging';
import { runService } from '@semblance/common/service';
import { loadVoices, voiceDirectories } from '@semblance/common/voices/load-voices';
import { createNatsBus } from '@semblance/events/nats-bus';
import { openObjectStore } from '@semblance/objects/open';
import { checkAtStart } from '@semblance/objects/start-check';
import { controlPlaneShape, oidcOf } from './config.ts';
import { startControlPlane } from './control-plane.ts';

const logger = createLogger({
  service: 'control-plane',
  level: process.env.SEMBLANCE_LOG_LEVEL || 'info',
});

runService(logger, async () => {
  const config = loadConfig(controlPlaneShape);
  const oidc = oidcOf(config);
  const voices = await loadVoices(voiceDirectories(config));
  const registry = createRegistry('control-plane');
  if (!config.SEMBLANCE_INTERNAL_TOKEN && !config.SEMBLANCE_TLS_DIR) {
    logger.warn('SEMBLANCE_INTERNAL_TOKEN is not set: anyone who reaches the gRPC port may call it');
  }
  const events = createNatsBus({
    url: config.SEMBLANCE_NATS_URL,
    caFile: config.SEMBLANCE_NATS_CA,
    name: 'control-plane',
    logger,
  });
  const kube = createKubeClient({
    kubeconfigPath: config.KUBECONFIG,
    fieldManager: 'semblance-control-plane',
    requestTimeoutMs: 5_000,
  });
  const objects = openObjectStore({
    url: config.SEMBLANCE_OBJECTS_URL,
    signingKey: config.SEMBLANCE_OBJECTS_SIGNING_KEY,
    publicUrl: config.SEMBLANCE_PUBLIC_URL,
    internalUrl: config.SEMBLANCE_OBJECTS_INTERNAL_URL,
  });
  const stored = checkAtStart(objects, logger);
  const tls = await openTls({ dir: config.SEMBLANCE_TLS_DIR, component: 'control-plane', logger });
  const controlPlane = await startControlPlane({
    listen: config.SEMBLANCE_CONTROL_LISTEN,
    postgresUrl: config.SEMBLANCE_POSTGRES_URL,
    events,
    kube,
    namespace: config.SEMBLANCE_NAMESPACE,
    objects,
    adminToken: config.SEMBLANCE_ADMIN_TOKEN,
    oidc,
    internalToken: config.SEMBLANCE_INTERNAL_TOKEN,
    tls,
    logger,
    registry,
    voices,
    webhooks: { allow: config.SEMBLANCE_WEBHOOK_ALLOW, deny: config.SEMBLANCE_WEBHOOK_DENY },
  });
  const health = await startHealthServer({
    listen: config.SEMBLANCE_HEALTH_LISTEN,
    service: 'control-plane',
    ready: { ...controlPlane.ready, ...stored.ready },
    registry,
  });
  logger.info({ port: controlPlane.port, health: health.port }, 'control plane is up');
  // Waiting does not help against a schema that is too new or a wrong password: uncaught, the error ends the
  // process with its reason.
  void controlPlane.migrated.catch((error: { retryable?: boolean }) => {
    if (error.retryable === false) throw error;
  });
  return async () => {
    await controlPlane.close();
    await events.close();
    stored.close();
    await kube.close();
    await objects.close();
    tls?.close();
    // The last one, because it reports all the while that the service is not ready.
    await health.close();
  };
});
