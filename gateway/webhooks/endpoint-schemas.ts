import { callbackUrlFault } from '@semblance/common/submit-rules';
import { ENDPOINT_EVENTS, MAX_DESCRIPTION } from '@semblance/common/webhook-rules';
import { z } from 'zod';
import { optional } from '../jobs/fields.ts';
import { isoTime } from '../openapi/parts.ts';

export const ENDPOINT_ID = /^whe-[0-9a-z]{26}$/;

const url = z
  .string('must be a string')
  .refine((value) => callbackUrlFault(value) === undefined, {
    error: (issue) => callbackUrlFault(String(issue.input)),
  })
  .meta({
    description:
      'Where events are POSTed: an absolute http or https URL of at most 2,048 characters, without credentials, whose host has a public address.',
    pattern: '^https?://[^\\s\\x00/?#@\\\\]+([/?#][^\\s\\x00]*)?$',
    maxLength: 2_048,
  });

const description = z
  .string('must be a string')
  .refine(
    (value) => [...value].length <= MAX_DESCRIPTION && value.isWellFormed() && !value.includes('\0'),
    `must be well-formed Unicode text of at most ${MAX_DESCRIPTION} characters`,
  )
  .meta({ description: 'What it is for, in your words.', maxLength: MAX_DESCRIPTION });

const eventName = z
  .enum(ENDPOINT_EVENTS, `must be one of ${ENDPOINT_EVENTS.join(', ')}`)
  .meta({ id: 'WebhookEventName', description: 'Something that an endpoint may be told.' });

const events = z
  .array(eventName, 'must be a list of events')
  .min(1, 'must name at least one event')
  .max(ENDPOINT_EVENTS.length, 'must name each event once')
  .refine((names) => new Set(names).size === names.length, 'must name each event once')
  .meta({ description: 'The events that it gets.', uniqueItems: true });

const enabled = z
  .boolean('must be true or false')
  .meta({ description: 'Whether events go to it. Deliveries that wait for one that is disabled end.' });

export const newEndpoint = z
  .object(
    {
      url,
      events,
      description: optional(description).meta({
        default: '',
        description: 'What it is for; empty when left out.',
      }),
      enabled: optional(enabled).meta({
        default: true,
        description: 'Whether events go to it; they do when it is left out.',
      }),
    },
    'The body must be a JSON object',
  )
  .meta({ id: 'NewWebhookEndpoint' });

export const endpointChange = z
  .object(
    {
      url: optional(url).meta({ description: 'Another address, by the same rules. Left out: it stays.' }),
      events: optional(events).meta({
        description: 'The events that it gets from now on. Left out: they stay.',
      }),
      description: optional(description).meta({ description: 'What it is for. Left out: it stays.' }),
      enabled: optional(enabled).meta({
        description:
          'Whether events go to it. Deliveries that wait for one that is disabled end. Left out: it stays.',
      }),
    },
    'The body must be a JSON object',
  )
  .meta({ id: 'WebhookEndpointChange', description: 'What is left out stays as it is.' });

export const endpointSchema = z
  .object({
    id: z.string().meta({ description: 'Id of the endpoint.', pattern: ENDPOINT_ID.source }),
    url: z.string().meta({ description: 'Where events are POSTed.' }),
    description: z.string().meta({ description: 'What it is for.' }),
    events: z.array(eventName).meta({ description: 'The events that it gets.' }),
    enabled: z.boolean().meta({ description: 'Whether events go to it.' }),
    disabled_by: z.enum(['owner', 'failing']).nullable().meta({
      description:
        'Why it is disabled. `owner`: a call said so. `failing`: for five days nothing but failures came. Null while it is enabled.',
    }),
    failing_since: isoTime(
      'Since when every attempt has failed; null after a success, and before the first attempt.',
    ).nullable(),
    created_at: isoTime('When it was made.'),
    updated_at: isoTime('When it was changed last.'),
  })
  .meta({ id: 'WebhookEndpoint' });

export const EXAMPLE_ENDPOINT = {
  id: 'whe-01k9x3v7m2q8r5t1w4y6z0abcd',
  url: 'https://example.com/semblance',
  description: 'the shop',
  events: ['job.succeeded', 'job.failed'],
  enabled: true,
  disabled_by: null,
  failing_since: null,
  created_at: '2026-01-31T09:30:00.123Z',
  updated_at: '2026-01-31T09:30:00.123Z',
};
