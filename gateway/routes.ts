import Router from '@koa/router';
import { ApiError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import { DirectoryStore } from '#common/objects/directory-store.ts';
import { FILES_PATH } from '#common/objects/links.ts';
import type { ObjectStore } from '#common/objects/store.ts';
import { readBalance } from './account/balance.ts';
import { readPricing } from './account/pricing.ts';
import type { ControlPlane } from './control/control-plane.ts';
import { readFile } from './files/read.ts';
import { writeFile } from './files/write.ts';
import { asMiddleware, type GatewayContext } from './http/context.ts';
import type { BodyLimits } from './http/pace.ts';
import { readJob } from './jobs/read.ts';
import { submitJob } from './jobs/submit.ts';
import { JOB_CAPABILITIES } from './jobs/submit-schemas.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { SizeLimits } from './uploads/receive-file.ts';
import type { UploadsUnderWay } from './uploads/under-way.ts';
import { upload } from './uploads/upload.ts';

export const API_PREFIX = '/api/v1';

export interface RoutesOptions {
  readonly control: ControlPlane;
  readonly store: ObjectStore;
  readonly logger: Logger;
  readonly metrics: GatewayMetrics;
  readonly limits: SizeLimits;
  readonly underWay: UploadsUnderWay;
  /** Of uploads, and of what agents hand in. */
  readonly bodyLimits: BodyLimits;
  readonly bodyTimeoutMs: number;
  readonly signal: AbortSignal;
}

/** Every route of the gateway; those of /files only where the gateway itself serves the objects. */
export function createRouter(options: RoutesOptions): Router {
  const { control, store, logger, metrics, limits, underWay, bodyLimits, bodyTimeoutMs, signal } = options;
  const router = new Router({ sensitive: true, strict: true });
  const path = (resource: string) => API_PREFIX + resource;

  router.get(path('/jobs/:job_id'), asMiddleware(readJob({ control })));
  router.post(
    path('/uploads'),
    asMiddleware(upload({ control, store, logger, metrics, limits, underWay, bodyLimits, signal })),
  );
  for (const capability of JOB_CAPABILITIES)
    router.post(path(`/${capability}`), asMiddleware(submitJob({ control, capability, bodyTimeoutMs })));
  router.get(path('/balance'), asMiddleware(readBalance({ control })));
  router.get(path('/pricing'), asMiddleware(readPricing({ control })));

  if (store instanceof DirectoryStore) {
    const files = new RegExp(`^${FILES_PATH}/.+$`);
    router.get(files, asMiddleware(readFile({ store })));
    router.put(files, asMiddleware(writeFile({ store, bodyLimits, signal })));
  }
  return router;
}

/** What no route took: 404, and for a path that exists the methods it takes in `Allow`. */
export async function unknownRoute(ctx: GatewayContext): Promise<void> {
  const allowed = [...new Set(ctx.matched?.flatMap((layer) => layer.methods) ?? [])].sort();
  if (allowed.length === 0) throw new ApiError('not_found', 'There is no such resource.');
  ctx.set('Allow', allowed.join(', '));
  throw new ApiError('not_found', `This resource takes ${allowed.join(', ')}, not ${ctx.method}.`);
}
