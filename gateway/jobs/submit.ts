import { ApiError } from '#common/errors.ts';
import { IDEMPOTENCY_KEY_RULE, isIdempotencyKey } from '#common/submit-rules.ts';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { readJson } from '../http/json-body.ts';
import { type JobCapability, submitParser } from './submit-schemas.ts';

export interface SubmitOptions {
  readonly control: ControlPlane;
  readonly capability: JobCapability;
  /** Longest time for the body to arrive. */
  readonly bodyTimeoutMs: number;
}

/** POST /<capability>: one handler for the six job capabilities; they differ in their table of fields alone. */
export function submitJob({ control, capability, bodyTimeoutMs }: SubmitOptions): Handler {
  const parse = submitParser(capability);
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    let submit: ReturnType<typeof parse>;
    let idempotencyKey: string | undefined;
    try {
      idempotencyKey = idempotencyKeyOf(ctx.headers['idempotency-key']);
      submit = parse(await readJson(ctx, bodyTimeoutMs));
    } catch (error) {
      // Who may not ask at all is told that, not what was wrong with the body; and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const { id, status, statusUrl, replayed } = await control.submitJob(ctx, {
      caller,
      capability,
      inputs: submit.inputs,
      parameters: submit.parameters,
      callbackUrl: submit.callbackUrl,
      idempotencyKey,
    });
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    ctx.body = { id, status, status_url: statusUrl };
  };
}

function idempotencyKeyOf(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== 'string' || !isIdempotencyKey(header))
    throw new ApiError('invalid_input', `Idempotency-Key ${IDEMPOTENCY_KEY_RULE}.`);
  return header;
}
