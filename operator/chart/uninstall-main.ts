/**
 * Clears the namespace before `helm uninstall` removes anything; run by the chart. Ends within LIMIT_MS, with exit
 * code 0 when the namespace is clear.
 */

import { kubeShape, loadConfig } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { createKubeClient } from '@semblance/common/kube/index';
import { createLogger } from '@semblance/common/logging';
import { z } from 'zod';
import { uninstall } from './uninstall.ts';

/** In ms. Below the activeDeadlineSeconds of the Job, so that the log shows the reason. */
const LIMIT_MS = 50_000;

const logger = createLogger({ service: 'uninstall', level: process.env.SEMBLANCE_LOG_LEVEL || 'info' });
try {
  const config = loadConfig({
    ...kubeShape,
    SEMBLANCE_RELEASE: z.string().min(1),
    SEMBLANCE_FULLNAME: z.string().min(1),
  });
  const client = createKubeClient({ kubeconfigPath: config.KUBECONFIG, fieldManager: 'semblance-uninstall' });
  await uninstall({
    client,
    namespace: config.SEMBLANCE_NAMESPACE,
    fullname: config.SEMBLANCE_FULLNAME,
    release: config.SEMBLANCE_RELEASE,
    logger,
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  await client.close();
} catch (error) {
  logger.fatal({ err: error }, `cannot uninstall: ${describeError(error)}`);
  process.exitCode = 1;
}
