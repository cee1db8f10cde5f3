import { ApiError } from '@semblance/common/errors';
import { microsToUsd } from '@semblance/common/money';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import { z } from 'zod';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import { whileClientWaits } from '../http/client-gone.ts';
import type { Handler } from '../http/context.ts';
import { readJson } from '../http/json-body.ts';
import type { Operation } from '../openapi/operation.ts';
import { usd } from '../openapi/parts.ts';
import { optional } from './fields.ts';
import { inspectField, inspectionFields, inspectionSchemas } from './inspection.ts';
import {
  JOB_CAPABILITIES,
  type JobCapability,
  submitName,
  submitParser,
  submitSchema,
} from './submit-schemas.ts';

export interface EstimateOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for the body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

const asked = z.object(
  {
    capability: z.enum(JOB_CAPABILITIES, {
      error: ({ input }) =>
        input === undefined ? 'is required' : `must be one of ${JOB_CAPABILITIES.join(', ')}`,
    }),
    inspect: optional(inspectField),
  },
  'The body must be a JSON object',
);

/** Handles POST /estimate: the hold of a submit with the same fields. */
export function estimateJob({ callerOf, control, bodyTimeoutMs }: EstimateOptions): Handler {
  const parsers = new Map(JOB_CAPABILITIES.map((name) => [name, submitParser(name)]));
  return async (ctx) => {
    const caller = await callerOf(ctx);
    let capability: JobCapability;
    let submit: ReturnType<ReturnType<typeof submitParser>>;
    let inspect: boolean;
    try {
      const body = await readJson(ctx, bodyTimeoutMs);
      const { data, error } = asked.safeParse(body);
      const issue = error?.issues[0];
      if (!data)
        throw new ApiError('invalid_input', `${[...(issue?.path ?? []), issue?.message].join(' ')}.`);
      capability = data.capability;
      inspect = data.inspect ?? false;
      submit = (parsers.get(capability) as ReturnType<typeof submitParser>)(body);
    } catch (error) {
      // The key is checked before a fault is reported, and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const quote = await whileClientWaits(ctx, (signal) =>
      control.estimateJob(ctx, { caller, capability, ...submit, inspect }, signal),
    );
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      capability,
      feature: CAPABILITIES[capability].feature,
      hold_usd: microsToUsd(quote.holdMicros),
      rate_usd: microsToUsd(quote.rateMicros),
      unit: quote.unit,
      minimum_usd: microsToUsd(quote.minimumMicros),
      balance_sufficient: quote.balanceSufficient,
      ...capFields(quote),
      ...(inspect ? inspectionFields(quote.inspection) : {}),
    };
  };
}

/** Fields that say whether the caps leave a hold. An earlier control plane says nothing of caps. */
export const capFields = ({ capRefusal }: { readonly capRefusal?: string | undefined }) => ({
  cap_sufficient: capRefusal === undefined,
  ...(capRefusal !== undefined && { cap_message: capRefusal }),
});

export const capSchemas = {
  cap_sufficient: z.boolean().meta({
    description:
      'Whether the caps of the account and of the key leave the hold now. A submit that they do not leave is `insufficient_balance`.',
  }),
  cap_message: z
    .string()
    .meta({ description: 'Where they do not: which cap, and what is left of it.' })
    .optional(),
};

type EstimateOf = ReturnType<typeof estimateOf>;

function estimateOf(name: JobCapability) {
  return submitSchema(name)
    .safeExtend({
      capability: z.literal(name).meta({ description: 'Path segment of the submit.' }),
      inspect: optional(inspectField),
    })
    .meta({ id: `${estimateName(name)}`, description: `Estimate of ${CAPABILITIES[name].title}.` });
}

const estimateName = (name: JobCapability) => submitName(name).replace(/Submit$/, 'EstimateRequest');

/** One schema per capability: the fields of a submit and the name of the capability. */
const estimateBody = z
  .discriminatedUnion('capability', JOB_CAPABILITIES.map(estimateOf) as [EstimateOf, ...EstimateOf[]])
  .meta({
    id: 'EstimateRequest',
    description: 'The fields of a submit and the name of its capability.',
    discriminator: {
      propertyName: 'capability',
      mapping: Object.fromEntries(
        JOB_CAPABILITIES.map((name) => [name, `#/components/schemas/${estimateName(name)}`]),
      ),
    },
  });

const estimateSchema = z
  .object({
    capability: z.enum(JOB_CAPABILITIES).meta({ description: 'Path segment of the submit.' }),
    feature: z
      .enum(JOB_CAPABILITIES.map((name) => CAPABILITIES[name].feature))
      .meta({ description: 'Name of the capability.' }),
    hold_usd: usd('What a submit would hold: max(minimum, rate × units estimated).'),
    rate_usd: usd(
      'Price of one unit, by the account’s own rates: the highest that the output can have with these parameters.',
    ),
    unit: z.enum(['image', 'second']).meta({ description: 'What the rate is for one of.' }),
    minimum_usd: usd('Least that the job is charged.'),
    balance_sufficient: z.boolean().meta({ description: 'Whether the balance covers the hold now.' }),
    ...capSchemas,
    ...inspectionSchemas,
  })
  .meta({ id: 'Estimate' });

export const estimateOperation: Operation = {
  id: 'estimate',
  tag: 'Jobs',
  summary: 'What a submit would hold',
  description:
    'The body of a submit with the name of its capability. Checked and refused as the submit would be, except that a balance which is too low and a cap that leaves too little are answers, not errors, and that ceilings of work in flight are not looked at. Holds nothing and makes nothing; an Idempotency-Key has no effect. With `inspect: true` an agent also looks at the pictures.',
  key: 'required',
  body: {
    type: 'application/json',
    schema: estimateBody,
    example: {
      capability: 'face-swap-image',
      image_key: 'api/01k9x3v7m2q8r5t1w4y6z0imag',
      face_key: 'api/01k9x3v7m2q8r5t1w4y6z0face',
    },
  },
  answers: [
    {
      status: 200,
      description: 'The estimate.',
      schema: estimateSchema,
      example: {
        capability: 'face-swap-image',
        feature: 'photo_swap',
        hold_usd: 0.06,
        rate_usd: 0.04,
        unit: 'image',
        minimum_usd: 0.04,
        balance_sufficient: true,
        cap_sufficient: true,
      },
    },
  ],
  errors: ['invalid_input', 'capability_unavailable'],
};
