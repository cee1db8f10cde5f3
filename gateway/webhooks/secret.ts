import { ApiError } from '@semblance/common/errors';
import { RotateWebhookSecretRequest_Step as Step } from '@semblance/proto/semblance/control/v1/control';
import type { WebhookSecret } from '@semblance/proto/semblance/control/v1/webhooks';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';

interface Options {
  readonly control: ControlPlane;
}

/** Steps of a rotation, as the path names them. */
const STEPS = { begin: Step.STEP_BEGIN, finish: Step.STEP_FINISH, now: Step.STEP_NOW } as const;

/** Handles GET /webhook-secret. */
export function readSecret({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    answer(ctx, await control.showWebhookSecret(ctx, { caller }));
  };
}

/** Handles POST /webhook-secret/{step}. */
export function rotateSecret({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const step = await checked(ctx, control, () => {
      const name = ctx.params.step as string;
      if (!Object.hasOwn(STEPS, name)) throw new ApiError('not_found', 'There is no such resource.');
      return STEPS[name as keyof typeof STEPS];
    });
    answer(ctx, await control.rotateWebhookSecret(ctx, { caller, step }));
  };
}

function answer(ctx: GatewayContext, { secret }: { readonly secret?: WebhookSecret | undefined }): void {
  if (!secret) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
  ctx.set('Cache-Control', 'no-store');
  ctx.body = { secret: secret.secret, next: secret.next ?? null };
}

const secretSchema = z
  .object({
    secret: z.string().meta({ description: 'Signs the webhooks of the account.' }),
    next: z.string().nullable().meta({
      description:
        'Signs beside it, and replaces it with `POST /webhook-secret/finish`. Null: no rotation has begun.',
    }),
  })
  .meta({ id: 'WebhookSecret' });

const EXAMPLE = { secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDhR0mW5FvcKw=', next: null };
const common = { tag: 'Webhook management', key: 'required' } as const;

export const readSecretOperation: Operation = {
  ...common,
  id: 'readWebhookSecret',
  summary: 'Read the secret that signs webhooks',
  description: 'The signing secret of the account. It is made when it is first needed or asked for.',
  answers: [{ status: 200, description: 'The secret.', schema: secretSchema, example: EXAMPLE }],
};

export const rotateSecretOperation: Operation = {
  ...common,
  id: 'rotateWebhookSecret',
  summary: 'Replace the secret that signs webhooks',
  description:
    '`begin` makes the next secret, and webhooks are signed by both; repeated, it answers the same one. `finish` puts the next secret in the place of the current one, which ends. `now` replaces the secret and ends every other at once, for one that leaked.',
  path: z.object({
    step: z
      .enum(Object.keys(STEPS) as [keyof typeof STEPS])
      .meta({ description: 'What to do: `begin`, `finish` or `now`.' }),
  }),
  answers: [
    {
      status: 200,
      description: 'The secret as it stands.',
      schema: secretSchema,
      example: { ...EXAMPLE, next: 'whsec_Yb8r2p7x0d8VY0Yx0c0p3cC1m4m4vYqR0Q7mRk2n5tE=' },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};
