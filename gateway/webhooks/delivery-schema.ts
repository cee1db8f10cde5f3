import { ENDPOINT_EVENTS, TEST_EVENT } from '@semblance/common/webhook-rules';
import type { WebhookDelivery } from '@semblance/proto/semblance/control/v1/webhooks';
import { z } from 'zod';
import { isoTime } from '../openapi/parts.ts';

export const DELIVERY_ID = /^dlv-[0-9a-z]{26}$/;
export const DELIVERY_STATES = ['pending', 'delivered', 'abandoned'] as const;
export const DELIVERED_EVENTS = [...ENDPOINT_EVENTS, TEST_EVENT] as const;

export function deliveryRecord(delivery: WebhookDelivery) {
  return {
    id: delivery.id,
    event: delivery.event,
    endpoint_id: delivery.endpointId ?? null,
    job_id: delivery.jobId ?? null,
    url: delivery.url,
    state: delivery.state,
    created_at: delivery.createdAt,
    next_attempt_at: delivery.dueAt ?? null,
    attempts: delivery.attempts.map(({ at, status, error, milliseconds }) => ({
      at,
      status: status ?? null,
      error: error ?? null,
      milliseconds,
    })),
  };
}

const attemptSchema = z
  .object({
    at: isoTime('When it was made.'),
    status: z
      .int()
      .min(100)
      .max(599)
      .nullable()
      .meta({ description: 'Number of the HTTP status that answered; null when nothing did.' }),
    error: z.string().nullable().meta({ description: 'Why it did not succeed; null for a success.' }),
    milliseconds: z.int().min(0).meta({
      description: 'Time from the attempt to the answer or the failure, in whole thousandths of a second.',
    }),
  })
  .meta({ id: 'WebhookAttempt' });

export const deliverySchema = z
  .object({
    id: z.string().meta({ description: 'The `delivery_id` of the body that is sent.' }),
    event: z.enum(DELIVERED_EVENTS).meta({ description: 'What it tells.' }),
    endpoint_id: z
      .string()
      .nullable()
      .meta({ description: 'Endpoint that it goes to; null: to a `callback_url`.' }),
    job_id: z.string().nullable().meta({ description: 'Job whose end it tells; null for other events.' }),
    url: z.string().meta({ description: 'Address that it goes to, without its query.' }),
    state: z.enum(DELIVERY_STATES).meta({
      description:
        '`pending`: an attempt is to come. `delivered`: an attempt was answered with 2xx. `abandoned`: six attempts failed, or its endpoint was disabled or deleted.',
    }),
    created_at: isoTime('When the event happened.'),
    next_attempt_at: isoTime('When it is tried next, or was due; null unless it is pending.').nullable(),
    attempts: z.array(attemptSchema).meta({ description: 'Every attempt, the first one first.' }),
  })
  .meta({ id: 'WebhookDelivery' });

export const EXAMPLE_DELIVERY = {
  id: 'dlv-01k9x3v7m2q8r5t1w4y6z0abcd',
  event: 'job.succeeded',
  endpoint_id: 'whe-01k9x3v7m2q8r5t1w4y6z0abcd',
  job_id: 'job-01k9x3v7m2q8r5t1w4y6z0abcd',
  url: 'https://example.com/semblance',
  state: 'delivered',
  created_at: '2026-01-31T09:30:00.123Z',
  next_attempt_at: null,
  attempts: [
    { at: '2026-01-31T09:30:00.150Z', status: 503, error: 'answered 503', milliseconds: 41 },
    { at: '2026-01-31T09:30:07.801Z', status: 200, error: null, milliseconds: 38 },
  ],
};
