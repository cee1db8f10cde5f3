import type { handleUnaryCall } from '@grpc/grpc-js';
import type { ControlServiceServer } from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../http/context.ts';

/** Calls by which owners of accounts manage their webhooks. */
export const WEBHOOK_CALLS = [
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
] as const;

type Call<Name extends keyof ControlServiceServer> =
  ControlServiceServer[Name] extends handleUnaryCall<infer Request, infer Response>
    ? (ctx: GatewayContext, request: Request) => Promise<Response>
    : never;

export type WebhookCalls = { readonly [Name in (typeof WEBHOOK_CALLS)[number]]: Call<Name> };
