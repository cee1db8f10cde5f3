import { ApiError } from '@semblance/common/errors';
import { IDEMPOTENCY_KEY_RULE, isIdempotencyKey } from '@semblance/common/submit-rules';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import { z } from 'zod';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { readJson } from '../http/json-body.ts';
import type { Operation } from '../openapi/operation.ts';
import { type JobCapability, submitParser, submitSchema } from './submit-schemas.ts';

export interface SubmitOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  readonly capability: JobCapability;
  /** Longest time for the body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

/** Handles POST /<capability>, for all six job capabilities, which differ only in their table of fields. */
export function submitJob({ callerOf, control, capability, bodyTimeoutMs }: SubmitOptions): Handler {
  const parse = submitParser(capability);
  return async (ctx) => {
    const caller = await callerOf(ctx);
    let submit: ReturnType<typeof parse>;
    let idempotencyKey: string | undefined;
    try {
      idempotencyKey = idempotencyKeyOf(ctx.headers['idempotency-key']);
      submit = parse(await readJson(ctx, bodyTimeoutMs));
    } catch (error) {
      // With an invalid key the caller learns only that, not the faults of the body. Refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const { id, status, statusUrl, replayed } = await control.submitJob(ctx, {
      caller,
      capability,
      ...submit,
      idempotencyKey,
    });
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    ctx.body = { id, status, status_url: statusUrl };
  };
}

/** @throws ApiError invalid_input */
export function idempotencyKeyOf(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== 'string' || !isIdempotencyKey(header))
    throw new ApiError('invalid_input', `Idempotency-Key ${IDEMPOTENCY_KEY_RULE}.`);
  return header;
}

const submittedSchema = z
  .object({
    id: z.string().meta({ description: 'Id of the job.' }),
    status: z.literal('queued').meta({ description: 'Always `queued`.' }),
    status_url: z
      .string()
      .meta({ description: 'Path of the job, relative to the origin: poll it as it is.' }),
  })
  .meta({ id: 'Submitted' });

export const submitHeaders = z.object({
  'Idempotency-Key': z.string().refine(isIdempotencyKey).optional().meta({
    pattern: '^[\\x20-\\x7e]{1,255}$',
    description:
      '1 to 255 printable ASCII characters. A repeat with the same key and body gets the answer to the first submit: no second charge, no second render. Kept for at least 24 hours. Left out: each submit is a job of its own.',
  }),
});

/** Returns a body that passes every formal check; its keys are examples. */
function exampleBody(capability: JobCapability): Record<string, unknown> {
  const inputs = Object.values(CAPABILITIES[capability].inputs).map(({ field, kind }) => [
    field,
    `api/01k9x3v7m2q8r5t1w4y6z0${kind.slice(0, 4)}`,
  ]);
  return {
    ...Object.fromEntries(inputs),
    ...(capability === 'avatar' ? { script: 'Good morning.' } : {}),
    callback_url: 'https://example.com/hooks/renders',
  };
}

export function submitOperation(capability: JobCapability): Operation {
  const { title, feature } = CAPABILITIES[capability];
  const name = feature.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
  return {
    id: `submit${name}`,
    tag: 'Jobs',
    summary: `${title}: submit a job`,
    description:
      'Places a hold on the balance and queues the work. Fields that are not known are ignored; `null` for an optional field counts as left out.',
    key: 'required',
    headers: submitHeaders,
    body: { type: 'application/json', schema: submitSchema(capability), example: exampleBody(capability) },
    callback: '{$request.body#/callback_url}',
    answers: [
      {
        status: 200,
        description: 'The job is queued.',
        schema: submittedSchema,
        headers: ['Idempotent-Replayed'],
        example: {
          id: 'job-01k9x3v7m2q8r5t1w4y6z0abcd',
          status: 'queued',
          status_url: '/api/v1/jobs/job-01k9x3v7m2q8r5t1w4y6z0abcd',
        },
      },
    ],
    errors: ['invalid_input', 'insufficient_balance', 'capability_unavailable', 'at_capacity'],
  };
}
