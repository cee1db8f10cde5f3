import { z } from 'zod';
import { EXAMPLE_JOB, jobSchema } from '../jobs/job-schema.ts';
import { DELIVERED_EVENTS } from '../webhooks/delivery-schema.ts';
import { isoTime } from './parts.ts';
import type { Json, SchemaOf } from './schema.ts';

const JOB_EVENTS = ['job.succeeded', 'job.failed'] as const;

const envelope = {
  sent_at: isoTime('When this attempt was made.'),
  delivery_id: z.string().meta({
    description: 'Id of the delivery, the same in each of its attempts: what comes twice is known by it.',
  }),
};

/** The call when a job has ended; `control-plane/webhooks` makes it. */
const jobWebhookSchema = z
  .object({
    event: z.enum(JOB_EVENTS).meta({ description: 'How the job ended.' }),
    ...envelope,
    data: jobSchema.meta({ description: 'The job, byte for byte as `GET /jobs/{job_id}` answers it.' }),
  })
  .meta({ id: 'JobWebhook', description: 'Body of a webhook.' });

/** The call when anything else has happened that an endpoint chose. */
const accountWebhookSchema = z
  .object({
    event: z
      .enum(DELIVERED_EVENTS.filter((event) => !(JOB_EVENTS as readonly string[]).includes(event)))
      .meta({ description: 'What happened.' }),
    ...envelope,
    data: z.record(z.string(), z.unknown()).meta({
      description: 'What it is about; the pages on batches, keys and webhooks have the fields of each event.',
    }),
  })
  .meta({ id: 'AccountWebhook', description: 'Body of a webhook that is not about a job.' });

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

const TAKEN =
  'Any 2xx answer within 10 seconds takes it. Otherwise it is sent again, six times in all over about 15 minutes, with the same `delivery_id`.';

/** Returns the operation that a receiver of the ends of jobs has. */
export function describeJobWebhook(id: string, schemaOf: SchemaOf): Json {
  return describe(id, schemaOf(jobWebhookSchema, 'output'), {
    summary: 'A job has ended',
    description: `Sent when a job has succeeded or failed, to its \`callback_url\` and to the endpoints of the account that chose the event. ${TAKEN}`,
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
  });
}

/** Returns the operation that a receiver of other events has. */
export function describeAccountWebhook(id: string, schemaOf: SchemaOf): Json {
  return describe(id, schemaOf(accountWebhookSchema, 'output'), {
    summary: 'Something has happened in the account',
    description: `Sent to the endpoints of the account that chose the event. ${TAKEN}`,
    example: {
      event: 'test',
      sent_at: '2026-01-31T09:30:00.123Z',
      delivery_id: 'dlv-01k9x3v7m2q8r5t1w4y6z0abcd',
      data: {
        endpoint_id: 'whe-01k9x3v7m2q8r5t1w4y6z0abcd',
        message: 'This is a test. Nothing has happened.',
      },
    },
  });
}

function describe(
  id: string,
  schema: Json,
  { summary, description, example }: { summary: string; description: string; example: Json },
): Json {
  return {
    operationId: id,
    tags: ['Webhooks'],
    summary,
    description,
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
          schema,
          example,
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
