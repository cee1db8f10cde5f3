import { z } from 'zod';
import { EXAMPLE_JOB, jobSchema } from '../jobs/job-schema.ts';
import { isoTime } from './parts.ts';
import type { Json, SchemaOf } from './schema.ts';

const EVENTS = ['job.succeeded', 'job.failed'] as const;

/** The call to a `callback_url` when a job has ended; `control-plane/webhooks` makes it. */
const webhookSchema = z
  .object({
    event: z.enum(EVENTS).meta({ description: 'How the job ended.' }),
    sent_at: isoTime('When this attempt was made.'),
    delivery_id: z.string().meta({
      description: 'Id of the delivery, the same in each of its attempts: what comes twice is known by it.',
    }),
    data: jobSchema.meta({ description: 'The job, byte for byte as `GET /jobs/{job_id}` answers it.' }),
  })
  .meta({ id: 'JobWebhook', description: 'Body of a webhook.' });

const HEADERS: readonly [string, string, boolean][] = [
  [
    'Service-Signature',
    '`t=<Unix seconds>,v1=<hex>`: the HMAC-SHA256 of `<t>.<raw body>` with the signing secret of the account. Compare in constant time, and refuse a `t` more than 300 seconds away.',
    true,
  ],
  ['Service-Event', 'The `event` of the body.', true],
  ['Service-Delivery', 'The `delivery_id` of the body.', true],
  [
    'Service-Signature-Next',
    'The same by the next secret, while the secret is being replaced. Otherwise left out.',
    false,
  ],
  [
    'webhook-id',
    'The `delivery_id` of the body, as Standard Webhooks has it. Left out for secrets that were made before.',
    false,
  ],
  ['webhook-timestamp', 'When this attempt was made, in Unix seconds. Left out with `webhook-id`.', false],
  [
    'webhook-signature',
    '`v1,<base64>`: the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>`. Left out with `webhook-id`.',
    false,
  ],
];

/** Returns the operation that a receiver of webhooks has. */
export function describeWebhook(id: string, schemaOf: SchemaOf): Json {
  return {
    operationId: id,
    tags: ['Webhooks'],
    summary: 'A job has ended',
    description:
      'Sent to the `callback_url` of a job that succeeded or failed. Any 2xx answer within 10 seconds takes it. Otherwise it is sent again, six times in all over about 15 minutes, with the same `delivery_id`.',
    // The receiver checks the signature.
    security: [],
    parameters: HEADERS.map(([name, description, required]) => ({
      name,
      in: 'header',
      required,
      description,
      schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: schemaOf(webhookSchema, 'output'),
          example: {
            event: 'job.failed',
            sent_at: '2026-01-31T09:30:00.123Z',
            delivery_id: 'dlv-01k9x3v7m2q8r5t1w4y6z0abcd',
            data: {
              ...EXAMPLE_JOB,
              status: 'failed',
              charged_usd: 0,
              error: { code: 'face_not_detected', message: 'No face was found in the picture.' },
            },
          },
        },
      },
    },
    responses: {
      '2XX': { description: 'The webhook is taken.' },
      '4XX': { description: 'The webhook is not taken, and is sent again.' },
      default: { description: 'The webhook is not taken, and is sent again; redirects are not followed.' },
    },
  };
}
