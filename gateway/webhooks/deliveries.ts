import { ApiError } from '@semblance/common/errors';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import { isJobIdShaped } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';
import { limitUpTo, parseQuery } from '../usage/query.ts';
import {
  DELIVERED_EVENTS,
  DELIVERY_ID,
  DELIVERY_STATES,
  deliveryRecord,
  deliverySchema,
  EXAMPLE_DELIVERY,
} from './delivery-schema.ts';
import { ENDPOINT_ID } from './endpoint-schemas.ts';

interface Options {
  readonly control: ControlPlane;
}

const once = () => z.string('must be given once');
const oneOf = <T extends string>(values: readonly T[]) =>
  z.enum(values, `must be given once, and be one of ${values.join(', ')}`).optional();

const deliveriesQuery = z.object({
  endpoint_id: once().regex(ENDPOINT_ID, 'must be the id of an endpoint').optional().meta({
    description: 'Deliveries to this endpoint, a deleted one too. Left out: to all, and to callbacks.',
  }),
  job_id: once().refine(isJobIdShaped, 'must be the id of a job').optional().meta({
    description: 'Deliveries that tell the end of this job. Left out: of everything.',
    pattern: '^[A-Za-z0-9_-]{1,64}$',
  }),
  event: oneOf(DELIVERED_EVENTS).meta({ description: 'Deliveries of this event. Left out: of all.' }),
  state: oneOf(DELIVERY_STATES).meta({ description: 'Deliveries in this state. Left out: in any.' }),
  limit: limitUpTo(200, 50),
  cursor: once()
    .regex(/^[A-Za-z0-9_-]{1,128}$/, 'must be the next_cursor of an earlier answer')
    .optional()
    .meta({
      description:
        '`next_cursor` of an earlier answer: the deliveries after its last one. Left out: the newest.',
    }),
});

/** Handles GET /webhook-deliveries. */
export function listDeliveries({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const request = await checked(ctx, control, () => {
      const { endpoint_id: endpointId, job_id: jobId, ...rest } = parseQuery(deliveriesQuery, queryOf(ctx));
      return { caller, endpointId, jobId, ...rest };
    });
    const { deliveries, nextCursor } = await control.listWebhookDeliveries(ctx, request);
    ctx.set('Cache-Control', 'no-store');
    ctx.body = { deliveries: deliveries.map(deliveryRecord), next_cursor: nextCursor ?? null };
  };
}

/** Handles GET /webhook-deliveries/{delivery_id}. */
export function readDelivery({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const deliveryId = await checked(ctx, control, () => idIn(ctx));
    const { deliveries } = await control.listWebhookDeliveries(ctx, { caller, deliveryId, limit: 1 });
    const [delivery] = deliveries;
    if (!delivery) throw notFound();
    ctx.set('Cache-Control', 'no-store');
    ctx.body = deliveryRecord(delivery);
  };
}

/** Handles POST /webhook-deliveries/{delivery_id}/replay. */
export function replayDelivery({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const deliveryId = await checked(ctx, control, () => idIn(ctx));
    const { delivery } = await control.replayWebhookDelivery(ctx, { caller, deliveryId });
    if (!delivery) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
    ctx.set('Cache-Control', 'no-store');
    ctx.status = 202;
    ctx.body = deliveryRecord(delivery);
  };
}

const notFound = () => new ApiError('not_found', 'There is no such webhook delivery.');

function idIn(ctx: GatewayContext): string {
  const id = ctx.params.delivery_id as string;
  if (!DELIVERY_ID.test(id)) throw notFound();
  return id;
}

const path = z.object({
  delivery_id: z.string().meta({ pattern: DELIVERY_ID.source, description: 'Id of the delivery.' }),
});

const common = { tag: 'Webhook management', key: 'required' } as const;

export const listDeliveriesOperation: Operation = {
  ...common,
  id: 'listWebhookDeliveries',
  summary: 'List webhook deliveries, the newest first',
  description: 'The log of what was sent to endpoints and to callbacks, each delivery with every attempt.',
  query: deliveriesQuery,
  answers: [
    {
      status: 200,
      description: 'A page of deliveries.',
      schema: z
        .object({
          deliveries: z.array(deliverySchema).meta({ description: 'The newest first.' }),
          next_cursor: z
            .string()
            .nullable()
            .meta({ description: 'For the next page, with the same filters. Null: there are no more.' }),
        })
        .meta({ id: 'WebhookDeliveryPage' }),
      example: { deliveries: [EXAMPLE_DELIVERY], next_cursor: null },
    },
  ],
  errors: ['invalid_input'],
};

export const readDeliveryOperation: Operation = {
  ...common,
  id: 'readWebhookDelivery',
  summary: 'Read a webhook delivery',
  description: 'The delivery as it stands, with every attempt.',
  path,
  answers: [{ status: 200, description: 'The delivery.', schema: deliverySchema, example: EXAMPLE_DELIVERY }],
  errors: ['not_found'],
};

export const replayDeliveryOperation: Operation = {
  ...common,
  id: 'replayWebhookDelivery',
  summary: 'Send a webhook delivery again',
  description:
    'Begins the delivery again, with six attempts, under the same id, to the same address. A job is told as it stands then. Repeating the call while it is pending changes nothing but the time of the next attempt.',
  path,
  answers: [
    {
      status: 202,
      description: 'The delivery as it begins again.',
      schema: deliverySchema,
      example: { ...EXAMPLE_DELIVERY, state: 'pending', next_attempt_at: '2026-01-31T10:00:00.000Z' },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};
