import { ApiError } from '@semblance/common/errors';
import { MAX_ENDPOINTS } from '@semblance/common/webhook-rules';
import type { WebhookEndpoint } from '@semblance/proto/semblance/control/v1/webhooks';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { faultsOf } from '../http/faults.ts';
import { readJson } from '../http/json-body.ts';
import type { Operation } from '../openapi/operation.ts';
import { deliveryRecord, deliverySchema, EXAMPLE_DELIVERY } from './delivery-schema.ts';
import {
  ENDPOINT_ID,
  EXAMPLE_ENDPOINT,
  endpointChange,
  endpointSchema,
  newEndpoint,
} from './endpoint-schemas.ts';

export interface EndpointOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for a body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

const path = z.object({
  endpoint_id: z.string().meta({ pattern: ENDPOINT_ID.source, description: 'Id of the endpoint.' }),
});

function idIn(ctx: GatewayContext): string {
  const id = ctx.params.endpoint_id as string;
  if (!ENDPOINT_ID.test(id)) throw new ApiError('not_found', 'There is no such webhook endpoint.');
  return id;
}

/** Handles GET /webhook-endpoints. */
export function listEndpoints({ control }: EndpointOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const { endpoints } = await control.listWebhookEndpoints(ctx, { caller });
    answer(ctx, { endpoints: endpoints.map(endpointRecord) });
  };
}

/** Handles GET /webhook-endpoints/{endpoint_id}. */
export function readEndpoint({ control }: EndpointOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const endpointId = await checked(ctx, control, () => idIn(ctx));
    answer(ctx, shown(await control.getWebhookEndpoint(ctx, { caller, endpointId })));
  };
}

/** Handles POST /webhook-endpoints. */
export function createEndpoint({ callerOf, control, bodyTimeoutMs }: EndpointOptions): Handler {
  return async (ctx) => {
    const caller = await callerOf(ctx);
    const body = await readBody(ctx, control, newEndpoint, bodyTimeoutMs);
    const fields = { ...body, events: { names: body.events } };
    answer(ctx, shown(await control.createWebhookEndpoint(ctx, { caller, fields })), 201);
  };
}

/** Handles PATCH /webhook-endpoints/{endpoint_id}. */
export function changeEndpoint({ callerOf, control, bodyTimeoutMs }: EndpointOptions): Handler {
  return async (ctx) => {
    const caller = await callerOf(ctx);
    const endpointId = await checked(ctx, control, () => idIn(ctx));
    const { events, ...rest } = await readBody(ctx, control, endpointChange, bodyTimeoutMs);
    const fields = { ...rest, events: events && { names: events } };
    answer(ctx, shown(await control.updateWebhookEndpoint(ctx, { caller, endpointId, fields })));
  };
}

/** Handles DELETE /webhook-endpoints/{endpoint_id}. */
export function deleteEndpoint({ control }: EndpointOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const endpointId = await checked(ctx, control, () => idIn(ctx));
    await control.deleteWebhookEndpoint(ctx, { caller, endpointId });
    ctx.set('Cache-Control', 'no-store');
    ctx.status = 204;
  };
}

/** Handles POST /webhook-endpoints/{endpoint_id}/test. */
export function testEndpoint({ control }: EndpointOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const endpointId = await checked(ctx, control, () => idIn(ctx));
    const { delivery } = await control.testWebhookEndpoint(ctx, { caller, endpointId });
    if (!delivery) throw noAnswer();
    answer(ctx, deliveryRecord(delivery), 202);
  };
}

/** Reads a body and parses it. With an invalid key the caller learns only that. @throws ApiError invalid_input */
async function readBody<T extends z.ZodType>(
  ctx: GatewayContext,
  control: ControlPlane,
  schema: T,
  timeoutMs: number,
): Promise<z.output<T>> {
  const body = await readJson(ctx, timeoutMs).catch((error: unknown) => ({ error }));
  return checked(ctx, control, () => {
    if (body !== null && typeof body === 'object' && 'error' in body && body.error instanceof Error)
      throw body.error;
    const { data, error } = schema.safeParse(body);
    if (error) throw new ApiError('invalid_input', faultsOf(error.issues, body));
    return data;
  });
}

function answer(ctx: GatewayContext, body: object, status = 200): void {
  ctx.set('Cache-Control', 'no-store');
  ctx.status = status;
  ctx.body = body;
}

const noAnswer = () => new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });

function shown({ endpoint }: { readonly endpoint?: WebhookEndpoint | undefined }) {
  if (!endpoint) throw noAnswer();
  return endpointRecord(endpoint);
}

function endpointRecord({ disabledBy, failingSince, createdAt, updatedAt, ...endpoint }: WebhookEndpoint) {
  return {
    ...endpoint,
    disabled_by: disabledBy ?? null,
    failing_since: failingSince ?? null,
    created_at: createdAt,
    updated_at: updatedAt,
  };
}

const common = { tag: 'Webhook management', key: 'required' } as const;

export const listEndpointsOperation: Operation = {
  ...common,
  id: 'listWebhookEndpoints',
  summary: 'List webhook endpoints, the oldest first',
  description: `The addresses at which the account wants its events, at most ${MAX_ENDPOINTS}.`,
  answers: [
    {
      status: 200,
      description: 'The endpoints.',
      schema: z
        .object({ endpoints: z.array(endpointSchema).meta({ description: 'The oldest first.' }) })
        .meta({ id: 'WebhookEndpoints' }),
      example: { endpoints: [EXAMPLE_ENDPOINT] },
    },
  ],
};

export const readEndpointOperation: Operation = {
  ...common,
  id: 'readWebhookEndpoint',
  summary: 'Read a webhook endpoint',
  description: 'The endpoint as it stands.',
  path,
  answers: [{ status: 200, description: 'The endpoint.', schema: endpointSchema, example: EXAMPLE_ENDPOINT }],
  errors: ['not_found'],
};

export const createEndpointOperation: Operation = {
  ...common,
  id: 'createWebhookEndpoint',
  summary: 'Make a webhook endpoint',
  description: `From then on the events that it chose are POSTed to it, each with the delivery of its own, signed by the secret of the account. A \`callback_url\` is called besides. An account has at most ${MAX_ENDPOINTS} endpoints.`,
  body: {
    type: 'application/json',
    schema: newEndpoint,
    example: { url: EXAMPLE_ENDPOINT.url, events: EXAMPLE_ENDPOINT.events, description: 'the shop' },
  },
  answers: [{ status: 201, description: 'The endpoint.', schema: endpointSchema, example: EXAMPLE_ENDPOINT }],
  errors: ['invalid_input'],
};

export const changeEndpointOperation: Operation = {
  ...common,
  id: 'changeWebhookEndpoint',
  summary: 'Change a webhook endpoint',
  description:
    'Changes the fields that are given. A delivery goes to the address that the endpoint had when the event happened. Disabling an endpoint ends the deliveries that wait for it; enabling it again begins with the next event.',
  path,
  body: { type: 'application/json', schema: endpointChange, example: { enabled: false } },
  answers: [
    {
      status: 200,
      description: 'The endpoint.',
      schema: endpointSchema,
      example: { ...EXAMPLE_ENDPOINT, enabled: false, disabled_by: 'owner' },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};

export const deleteEndpointOperation: Operation = {
  ...common,
  id: 'deleteWebhookEndpoint',
  summary: 'Delete a webhook endpoint',
  description: 'Ends the deliveries that wait for it. What was delivered stays in the log.',
  path,
  answers: [{ status: 204, description: 'The endpoint is deleted.' }],
  errors: ['not_found'],
};

export const testEndpointOperation: Operation = {
  ...common,
  id: 'testWebhookEndpoint',
  summary: 'Send a test event to a webhook endpoint',
  description:
    'Sends the event `test`, whichever events the endpoint chose, signed, tried again and recorded like any other. The answer is the delivery as it begins: read it again to see the attempts.',
  path,
  answers: [
    {
      status: 202,
      description: 'The delivery.',
      schema: deliverySchema,
      example: { ...EXAMPLE_DELIVERY, event: 'test', job_id: null, state: 'pending', attempts: [] },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};
