import type { handleUnaryCall } from '@grpc/grpc-js';
import type { ControlServiceServer } from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../http/context.ts';

/** Calls about batches, and calls by which owners of accounts manage their webhooks and sessions of the console. */
export const PLAIN_CALLS = [
  'submitBatch',
  'estimateBatch',
  'getBatch',
  'listBatches',
  'listBatchJobs',
  'cancelBatch',
  'listWebhookEndpoints',
  'getWebhookEndpoint',
  'createWebhookEndpoint',
  'updateWebhookEndpoint',
  'deleteWebhookEndpoint',
  'testWebhookEndpoint',
  'listWebhookDeliveries',
  'replayWebhookDelivery',
  'showWebhookSecret',
  'rotateWebhookSecret',
  'openConsoleSession',
  'listConsoleSessions',
  'endConsoleSession',
  'listSpendDays',
] as const;

type Call<Name extends keyof ControlServiceServer> =
  ControlServiceServer[Name] extends handleUnaryCall<infer Request, infer Response>
    ? (ctx: GatewayContext, request: Request) => Promise<Response>
    : never;

/** Calls that the gateway passes on as they are, with the time limit of all. */
export type PlainCalls = { readonly [Name in (typeof PLAIN_CALLS)[number]]: Call<Name> };
