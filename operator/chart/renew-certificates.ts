/**
 * Makes and renews the certificates between the services (certificates.ts). The chart runs it after an install or upgrade,
 * and every day.
 */
import { kubeShape, loadConfig } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { createKubeClient } from '@semblance/common/kube/index';
import { createLogger } from '@semblance/common/logging';
import { z } from 'zod';
import { renewCertificates } from './certificates.ts';

const DAY_MS = 86_400_000;

const logger = createLogger({ service: 'certificates', level: process.env.SEMBLANCE_LOG_LEVEL || 'info' });
try {
  const config = loadConfig({
    ...kubeShape,
    SEMBLANCE_FULLNAME: z.string().min(1),
    SEMBLANCE_CERTIFICATE_DAYS: z.coerce.number().int().min(1),
    SEMBLANCE_CERTIFICATE_RENEW_BEFORE_DAYS: z.coerce.number().int().min(0),
    // Kubernetes brings a changed Secret into a Pod within about two minutes, and services read it every five seconds.
    SEMBLANCE_CERTIFICATE_SPREAD_SECONDS: z.coerce.number().int().min(1).default(300),
  });
  const client = createKubeClient({
    kubeconfigPath: config.KUBECONFIG,
    fieldManager: 'semblance-certificates',
  });
  const outcome = await renewCertificates({
    client,
    namespace: config.SEMBLANCE_NAMESPACE,
    fullname: config.SEMBLANCE_FULLNAME,
    lifetimeMs: config.SEMBLANCE_CERTIFICATE_DAYS * DAY_MS,
    renewBeforeMs: config.SEMBLANCE_CERTIFICATE_RENEW_BEFORE_DAYS * DAY_MS,
    spreadMs: config.SEMBLANCE_CERTIFICATE_SPREAD_SECONDS * 1_000,
    logger,
  });
  if (outcome === 'kept') logger.info('the certificates between the services are good');
  await client.close();
} catch (error) {
  logger.fatal({ err: error }, `cannot renew the certificates between the services: ${describeError(error)}`);
  process.exitCode = 1;
}
