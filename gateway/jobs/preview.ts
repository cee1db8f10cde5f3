import { ApiError } from '@semblance/common/errors';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import { isPreviewed, PREVIEWED } from '@semblance/engine-api/previewed';
import { z } from 'zod';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import { whileClientWaits } from '../http/client-gone.ts';
import type { Handler } from '../http/context.ts';
import { faultsOf } from '../http/faults.ts';
import { readJson } from '../http/json-body.ts';
import type { Operation } from '../openapi/operation.ts';
import { optional } from './fields.ts';
import { submitName, submitParser, submitSchema } from './submit-schemas.ts';

export interface PreviewOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for the body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

/** Longest time into a video, in seconds: a day. */
const MOST_SECONDS = 86_400;

const atSec = z
  .number('must be a number')
  .min(0, 'must not be below 0')
  .max(MOST_SECONDS, `must be at most ${MOST_SECONDS}`)
  .meta({
    description:
      'Time of the frame of a video, in seconds; of a video of more than 20 seconds it is the key frame before it. Left out: 0, its beginning.',
  });

const asked = z.object(
  {
    capability: z.string('is required').refine(isPreviewed, `must be one of ${PREVIEWED.join(', ')}`),
    at_sec: optional(atSec),
  },
  'The body must be a JSON object',
);

/** Handles POST /preview. */
export function previewJob({ callerOf, control, bodyTimeoutMs }: PreviewOptions): Handler {
  const parsers = new Map(PREVIEWED.map((name) => [name as string, submitParser(name)]));
  return async (ctx) => {
    const caller = await callerOf(ctx);
    let request: Omit<Parameters<ControlPlane['previewJob']>[1], 'caller'>;
    try {
      const body = await readJson(ctx, bodyTimeoutMs);
      const { data, error } = asked.safeParse(body);
      if (!data) throw new ApiError('invalid_input', faultsOf(error.issues, body));
      const { capability, at_sec: seconds = 0 } = data;
      const parse = parsers.get(capability) as ReturnType<typeof submitParser>;
      const { inputs, parameters, engineOptions } = parse(body);
      request = { capability, inputs, parameters, engineOptions, atUs: BigInt(Math.round(seconds * 1e6)) };
    } catch (error) {
      // The key is checked before a fault is reported, and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const { jpeg } = await whileClientWaits(ctx, (signal) =>
      control.previewJob(ctx, { caller, ...request }, signal),
    );
    ctx.set('Cache-Control', 'no-store');
    ctx.type = 'image/jpeg';
    ctx.body = Buffer.from(jpeg);
  };
}

type PreviewOf = ReturnType<typeof previewOf>;

function previewOf(name: (typeof PREVIEWED)[number]) {
  return submitSchema(name)
    .safeExtend({
      capability: z.literal(name).meta({ description: 'Path segment of the submit.' }),
      at_sec: optional(atSec),
    })
    .meta({ id: previewName(name), description: `Preview of ${CAPABILITIES[name].title}.` });
}

const previewName = (name: (typeof PREVIEWED)[number]) =>
  submitName(name).replace(/Submit$/, 'PreviewRequest');

/** One schema per capability: the fields of a submit, the name of the capability, and the time. */
const previewBody = z
  .discriminatedUnion('capability', PREVIEWED.map(previewOf) as [PreviewOf, ...PreviewOf[]])
  .meta({
    id: 'PreviewRequest',
    description: 'The fields of a submit, the name of its capability, and the time of the frame.',
    discriminator: {
      propertyName: 'capability',
      mapping: Object.fromEntries(
        PREVIEWED.map((name) => [name, `#/components/schemas/${previewName(name)}`]),
      ),
    },
  });

export const previewJobOperation: Operation = {
  id: 'previewJob',
  tag: 'Jobs',
  summary: 'See one frame of a swap before paying',
  description:
    'Renders one frame of a Photo Swap or Video Swap, at most 512 pixels wide and high, and answers it within 25 seconds as a JPEG that is marked as made by an AI, like every output. It costs nothing, holds nothing and keeps nothing. The submit is checked as it would be, and so is its content. One preview of an account is under way at a time, and a few wait; beyond that, after the previews of a day, and while agents have no room, it is `at_capacity`. What the render would fail with is `invalid_input`, with the reason in the message.',
  key: 'required',
  body: {
    type: 'application/json',
    schema: previewBody,
    example: {
      capability: 'face-swap',
      video_key: 'api/01k9x3v7m2q8r5t1w4y6z0vide',
      face_key: 'api/01k9x3v7m2q8r5t1w4y6z0imag',
      at_sec: 2.5,
    },
  },
  answers: [
    {
      status: 200,
      description: 'The frame.',
      type: 'image/jpeg',
      schema: z.string().meta({ format: 'binary' }),
    },
  ],
  errors: ['invalid_input', 'unsupported_format', 'input_too_large', 'capability_unavailable', 'at_capacity'],
};
