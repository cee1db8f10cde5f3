import Router from '@koa/router';
import { createClientLog } from '@semblance/common/client-log';
import { ApiError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { DirectoryStore } from '@semblance/objects/directory-store';
import { FILES_PATH } from '@semblance/objects/links';
import type { ObjectStore } from '@semblance/objects/store';
import { readBalance, readBalanceOperation } from './account/balance.ts';
import { readPricing, readPricingOperation } from './account/pricing.ts';
import type { CallerBeforeBody } from './auth/known-keys.ts';
import { batchRoutes } from './batches/routes.ts';
import { CONSOLE_PATH, consolePageRoutes } from './console/page.ts';
import { consoleSessionRoutes } from './console/routes.ts';
import type { ControlPlane } from './control/control-plane.ts';
import type { EventStreams } from './events/event-streams.ts';
import { eventSchemas, readEvents, readEventsOperation } from './events/read-events.ts';
import { findFaces, findFacesOperation } from './faces/find-faces.ts';
import { deleteFile } from './files/delete.ts';
import { createLinkKeys } from './files/link-keys.ts';
import { listFiles } from './files/list.ts';
import { readFile } from './files/read.ts';
import { readFileOperation } from './files/read-operation.ts';
import type { SendLimits } from './files/send.ts';
import { writeFile } from './files/write.ts';
import { asMiddleware, type GatewayContext } from './http/context.ts';
import type { BodyLimits } from './http/pace.ts';
import { cancelJob, cancelJobOperation } from './jobs/cancel.ts';
import { estimateJob, estimateOperation } from './jobs/estimate.ts';
import { listJobs, listJobsOperation } from './jobs/list.ts';
import { previewJob, previewJobOperation } from './jobs/preview.ts';
import { readJob, readJobOperation } from './jobs/read.ts';
import { submitJob, submitOperation } from './jobs/submit.ts';
import { JOB_CAPABILITIES } from './jobs/submit-schemas.ts';
import { keyRoutes } from './keys/routes.ts';
import {
  deleteJobMedia,
  deleteJobMediaOperation,
  deleteUpload,
  deleteUploadOperation,
} from './media/delete-media.ts';
import {
  listReceipts,
  listReceiptsOperation,
  readReceiptKeys,
  readReceiptKeysOperation,
} from './media/receipts.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { Route } from './openapi/operation.ts';
import { serviceRoutes } from './openapi/serve.ts';
import { openSession, SESSION_CAPABILITIES } from './sessions/open.ts';
import { openSessionOperation } from './sessions/open-operation.ts';
import {
  endSession,
  endSessionOperation,
  listSessions,
  listSessionsOperation,
} from './sessions/own-sessions.ts';
import { listVoices, listVoicesOperation } from './sessions/voices.ts';
import { answerNoUpgrade, connectStreamOperation } from './streams/connect-operation.ts';
import { STREAMS_PATH, STREAMS_ROUTE } from './streams/paths.ts';
import { tryPageRoutes } from './try-page/try-page.ts';
import { SIZE_LIMITS, type SizeLimits } from './uploads/recognise.ts';
import { createAppends } from './uploads/resumable/appends.ts';
import { uploadLimit } from './uploads/resumable/headers.ts';
import {
  beginResumableOperation,
  cancelResumableOperation,
  continueResumableOperation,
  readResumableOperation,
} from './uploads/resumable/operations.ts';
import {
  beginResumable,
  cancelResumable,
  continueResumable,
  RESUMABLE_PATH,
  readResumable,
} from './uploads/resumable/resumable.ts';
import type { UploadsUnderWay } from './uploads/under-way.ts';
import { upload } from './uploads/upload.ts';
import { uploadOperation } from './uploads/upload-operation.ts';
import type { VolumeRoom } from './uploads/volume-room.ts';
import { listSpendDays, listSpendDaysOperation } from './usage/spend-days.ts';
import { listUsage, listUsageOperation, summarizeUsage, summarizeUsageOperation } from './usage/usage.ts';
import { webhookRoutes } from './webhooks/routes.ts';

const API_PREFIX = '/api/v1';

export interface RoutesOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  readonly store: ObjectStore;
  readonly logger: Logger;
  readonly metrics: GatewayMetrics;
  readonly limits: SizeLimits;
  readonly underWay: UploadsUnderWay;
  readonly volume: VolumeRoom | undefined;
  readonly streams: EventStreams;
  /** Limits of uploads and of stored results. */
  readonly bodyLimits: BodyLimits;
  readonly bodyTimeoutMs: number;
  /** Longest time that a client of /files may read nothing, in ms. */
  readonly readIdleMs: number;
  readonly sendLimits: SendLimits;
  /** Time for which the public rate card is answered again without a question to the control plane, in ms. */
  readonly pricingKeptMs: number;
  readonly signal: AbortSignal;
  /** Whether the page to try live sessions with is served. */
  readonly tryPage: boolean;
  /** Whether the pages of the console are served. */
  readonly console: boolean;
  /** Origin at which clients reach the gateway. */
  readonly publicUrl: string;
}

/**
 * Returns every route of the gateway; those of /files only when the gateway itself serves the objects. Both the
 * router and the OpenAPI document are made from this table. A new route is a row here, with its `Operation`
 * declared beside its handler, and the scope that a key needs for it.
 */
export function routeTable(options: RoutesOptions): Route[] {
  const { callerOf, control, store, logger, metrics, limits, underWay, volume, streams } = options;
  const { bodyLimits, bodyTimeoutMs, readIdleMs, sendLimits, pricingKeptMs, signal, publicUrl } = options;
  const uploads = { control, store, logger, metrics, limits, underWay, volume, bodyLimits, signal };
  const routes: Route[] = [
    {
      method: 'post',
      path: '/uploads',
      handler: upload(uploads),
      scope: 'submit',
      operation: uploadOperation,
    },
    ...resumableRoutes({ ...uploads, appends: createAppends(), clientLog: createClientLog(logger) }),
    ...JOB_CAPABILITIES.map(
      (capability): Route => ({
        method: 'post',
        path: `/${capability}`,
        handler: submitJob({ callerOf, control, capability, bodyTimeoutMs }),
        scope: 'submit',
        operation: submitOperation(capability),
      }),
    ),
    {
      method: 'get',
      path: '/jobs',
      handler: listJobs({ control }),
      scope: 'read',
      operation: listJobsOperation,
    },
    {
      method: 'get',
      path: '/jobs/{job_id}',
      handler: readJob({ control }),
      scope: 'read',
      operation: readJobOperation,
    },
    {
      method: 'post',
      path: '/jobs/{job_id}/cancel',
      handler: cancelJob({ callerOf, control, bodyTimeoutMs }),
      scope: 'submit',
      operation: cancelJobOperation,
    },
    {
      method: 'post',
      path: '/estimate',
      handler: estimateJob({ callerOf, control, bodyTimeoutMs }),
      scope: 'submit',
      operation: estimateOperation,
    },
    {
      method: 'post',
      path: '/preview',
      handler: previewJob({ callerOf, control, bodyTimeoutMs }),
      scope: 'submit',
      operation: previewJobOperation,
    },
    {
      method: 'post',
      path: '/faces',
      handler: findFaces({ callerOf, control, bodyTimeoutMs }),
      scope: 'submit',
      operation: findFacesOperation,
    },
    {
      method: 'get',
      path: '/jobs/{job_id}/events',
      handler: readEvents({ control, streams }),
      scope: 'read',
      operation: readEventsOperation,
    },
    {
      method: 'delete',
      path: '/jobs/{job_id}/media',
      handler: deleteJobMedia({ control }),
      scope: 'submit',
      operation: deleteJobMediaOperation,
    },
    {
      method: 'delete',
      path: '/uploads/{file_key}',
      handler: deleteUpload({ control }),
      scope: 'submit',
      operation: deleteUploadOperation,
    },
    {
      method: 'get',
      path: '/receipts',
      handler: listReceipts({ control }),
      scope: 'read',
      operation: listReceiptsOperation,
    },
    {
      method: 'get',
      path: '/receipts/keys',
      handler: readReceiptKeys({ control, keepMs: pricingKeptMs }),
      scope: 'none',
      operation: readReceiptKeysOperation,
    },
    ...SESSION_CAPABILITIES.map(
      (capability): Route => ({
        method: 'post',
        path: `/${capability}/session`,
        handler: openSession({ callerOf, control, capability, bodyTimeoutMs, publicUrl }),
        scope: 'sessions',
        operation: openSessionOperation(capability),
      }),
    ),
    {
      method: 'get',
      path: '/sessions',
      handler: listSessions({ control }),
      scope: 'read',
      operation: listSessionsOperation,
    },
    {
      method: 'delete',
      path: '/sessions/{session_id}',
      handler: endSession({ control }),
      scope: 'sessions',
      operation: endSessionOperation,
    },
    {
      method: 'get',
      path: '/voices',
      handler: listVoices({ control }),
      scope: 'read',
      operation: listVoicesOperation,
    },
    {
      method: 'get',
      path: '/balance',
      handler: readBalance({ control }),
      scope: 'read',
      operation: readBalanceOperation,
    },
    {
      method: 'get',
      path: '/pricing',
      handler: readPricing({ control, keepMs: pricingKeptMs }),
      scope: 'read',
      operation: readPricingOperation,
    },
    ...batchRoutes({ callerOf, control, bodyTimeoutMs }),
    ...webhookRoutes({ callerOf, control, bodyTimeoutMs }),
    ...keyRoutes({ callerOf, control, bodyTimeoutMs }),
    ...consoleSessionRoutes({ control, publicUrl }),
    {
      method: 'get',
      path: STREAMS_ROUTE,
      handler: answerNoUpgrade,
      scope: 'none',
      operation: connectStreamOperation,
    },
    {
      method: 'get',
      path: '/usage',
      handler: listUsage({ control }),
      scope: 'read',
      operation: listUsageOperation,
    },
    {
      method: 'get',
      path: '/usage/summary',
      handler: summarizeUsage({ control }),
      scope: 'read',
      operation: summarizeUsageOperation,
    },
    {
      method: 'get',
      path: '/usage/days',
      handler: listSpendDays({ control }),
      scope: 'read',
      operation: listSpendDaysOperation,
    },
  ];
  if (store instanceof DirectoryStore) {
    const path = `${FILES_PATH}/{key}`;
    routes.push(
      {
        method: 'get',
        path,
        handler: readFile({ store, readIdleMs, sendLimits, linkKeys: createLinkKeys({ control }) }),
        scope: 'none',
        operation: readFileOperation,
      },
      {
        method: 'put',
        path,
        handler: writeFile({ store, bodyLimits, signal }),
        scope: 'none',
        operation: 'internal',
      },
      { method: 'delete', path, handler: deleteFile({ store }), scope: 'none', operation: 'internal' },
      {
        method: 'get',
        path: FILES_PATH,
        handler: listFiles({ store }),
        scope: 'none',
        operation: 'internal',
      },
    );
  }
  if (options.console) routes.push(...consolePageRoutes({ filesOrigin: filesOriginOf(store) }));
  if (options.tryPage) {
    const filesOrigin = store instanceof DirectoryStore ? publicUrl : undefined;
    routes.push(...tryPageRoutes({ filesOrigin }));
  }
  return [...routes, ...serviceRoutes({ routes, prefix: API_PREFIX, publicUrl, schemas: eventSchemas })];
}

/** Returns how to learn at which origin links to files begin; undefined: at that of the gateway. */
function filesOriginOf(store: ObjectStore): (() => Promise<string>) | undefined {
  if (store instanceof DirectoryStore) return undefined;
  return async () => new URL(await store.signGet('api/none', { expiresInSeconds: 60 })).origin;
}

function resumableRoutes(options: Parameters<typeof beginResumable>[0]): Route[] {
  const path = `${RESUMABLE_PATH}/{upload_id}`;
  return [
    {
      method: 'post',
      path: RESUMABLE_PATH,
      handler: beginResumable(options),
      scope: 'submit',
      operation: beginResumableOperation,
    },
    {
      method: 'get',
      path,
      handler: readResumable(options),
      scope: 'submit',
      operation: readResumableOperation,
    },
    {
      method: 'patch',
      path,
      handler: continueResumable(options),
      scope: 'submit',
      operation: continueResumableOperation,
    },
    {
      method: 'delete',
      path,
      handler: cancelResumable(options),
      scope: 'submit',
      operation: cancelResumableOperation,
    },
  ];
}

export function createRouter(routes: readonly Route[]): Router {
  const router = new Router({ sensitive: true, strict: true });
  for (const { method, path, handler, scope } of routes)
    router[method](
      pattern(path),
      asMiddleware((ctx, next) => {
        ctx.state.scope = scope === 'none' ? undefined : scope;
        return handler(ctx, next);
      }),
    );
  return router;
}

/** Converts a path of the table for the router. File keys contain slashes, which no named part matches. */
function pattern(path: string): string | RegExp {
  if (path.startsWith(`${FILES_PATH}/`)) return new RegExp(`^${FILES_PATH}/.+$`);
  const outside =
    path === FILES_PATH ||
    path.startsWith(`${STREAMS_PATH}/`) ||
    [CONSOLE_PATH, `${CONSOLE_PATH}/`, `${CONSOLE_PATH}/*path`].includes(path);
  const prefix = outside ? '' : API_PREFIX;
  return prefix + path.replace('{file_key}', '*file_key').replaceAll(/\{(\w+)\}/g, ':$1');
}

/** Makes a path of the API with a slash at its end the path without it: they are one resource. */
export async function withoutLastSlash(ctx: GatewayContext, next: () => Promise<unknown>): Promise<void> {
  if (ctx.path.startsWith(`${API_PREFIX}/`) && /[^/]\/$/.test(ctx.path)) ctx.path = ctx.path.slice(0, -1);
  await next();
}

/** Answers requests without a route: OPTIONS with the methods of the path, others with 404, and the methods of an existing path in `Allow`. */
export async function unknownRoute(ctx: GatewayContext): Promise<void> {
  const allowed = [...new Set(ctx.matched?.flatMap((layer) => layer.methods) ?? [])].sort();
  if (allowed.length === 0) throw new ApiError('not_found', 'There is no such resource.');
  ctx.set('Allow', [...allowed, 'OPTIONS'].join(', '));
  if (ctx.method === 'OPTIONS') {
    // Clients learn here that uploads to this path can be resumed.
    if (ctx.path === API_PREFIX + RESUMABLE_PATH)
      ctx.set('Upload-Limit', uploadLimit(Math.max(...Object.values(SIZE_LIMITS))));
    ctx.status = 204;
    return;
  }
  throw new ApiError('not_found', `This resource takes ${allowed.join(', ')}, not ${ctx.method}.`);
}
