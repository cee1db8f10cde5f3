/** Applies the pools in SEMBLANCE_POOLS_DIR, one YAML file each. The chart runs it after an install or upgrade. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeShape, loadConfig } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { createKubeClient } from '@semblance/common/kube/index';
import { createLogger } from '@semblance/common/logging';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { parse } from 'yaml';
import { z } from 'zod';
import { applyPools } from './pools.ts';

const LIMIT_MS = 60_000;

const logger = createLogger({ service: 'pools', level: process.env.SEMBLANCE_LOG_LEVEL || 'info' });
try {
  const config = loadConfig({
    ...kubeShape,
    SEMBLANCE_RELEASE: z.string().min(1),
    SEMBLANCE_POOLS_DIR: z.string().startsWith('/'),
  });
  const folder = config.SEMBLANCE_POOLS_DIR;
  const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort();
  const wanted = await Promise.all(
    files.map(async (file) => parse(await readFile(join(folder, file), 'utf8')) as AgentPool),
  );
  const client = createKubeClient({ kubeconfigPath: config.KUBECONFIG, fieldManager: 'semblance-chart' });
  await applyPools({
    client,
    namespace: config.SEMBLANCE_NAMESPACE,
    release: config.SEMBLANCE_RELEASE,
    wanted,
    logger,
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  await client.close();
} catch (error) {
  logger.fatal({ err: error }, `cannot apply the pools of the values: ${describeError(error)}`);
  process.exitCode = 1;
}
