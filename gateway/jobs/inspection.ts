import { detailsOf, type JobDetails } from '@semblance/common/job-record';
import type { Inspection } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { codes, detailsSchema } from './job-schema.ts';

/** Field of an estimate that asks for an inspection. */
export const inspectField = z.boolean('must be true or false').meta({
  default: false,
  description:
    'Whether an agent looks at the pictures, for at most 5 seconds. The answer then has `inspection`, and `details` where something was found out. It costs nothing. Left out: false.',
});

interface InspectionFields {
  readonly inspection:
    | { readonly status: 'inspected' }
    | { readonly status: 'refused'; readonly error: { readonly code: string; readonly message: string } }
    | { readonly status: 'not_inspected'; readonly reason: string; readonly message: string };
  readonly details?: JobDetails;
}

/** Returns the fields that an inspection adds to an estimate. */
export function inspectionFields(inspection: Inspection | undefined): InspectionFields {
  const outcome = inspection?.outcome;
  switch (outcome?.$case) {
    case 'inspected':
      return { inspection: { status: 'inspected' }, ...detailsIn(outcome.value) };
    case 'refused': {
      const { code = 'processing_failed', message = '' } = outcome.value.error ?? {};
      return { inspection: { status: 'refused', error: { code, message } }, ...detailsIn(outcome.value) };
    }
    case 'notInspected': {
      const { reason, message } = outcome.value;
      return { inspection: { status: 'not_inspected', reason, message } };
    }
    default:
      // A control plane of an earlier release knows nothing of inspections.
      return { inspection: { status: 'not_inspected', reason: 'failed', message: REASONS.failed } };
  }
}

function detailsIn({ details }: { readonly details?: Parameters<typeof detailsOf>[0] | undefined }) {
  return details ? { details: detailsOf(details) } : {};
}

/** Why nothing was looked at. The codes are stable, and more may come. */
const REASONS = {
  busy: 'All agents are busy with renders or other inspections.',
  failed: 'The inspection did not work.',
  no_agent: 'No agent is ready for the capability.',
  no_picture: 'None of the inputs is a picture.',
  timed_out: 'The inspection took too long.',
  unsupported: 'The engine of the capability does not inspect pictures.',
} as const;

/** Fields that an inspection adds to an estimate. */
export const inspectionSchemas = {
  inspection: z
    .object({
      status: z.enum(['inspected', 'refused', 'not_inspected']).meta({
        description: [
          'What came of the inspection:',
          '- `inspected`: nothing in the pictures speaks against the render.',
          '- `refused`: a submit would be accepted, and its job would fail with `error`.',
          '- `not_inspected`: nothing was looked at, for `reason`.',
        ].join('\n'),
      }),
      error: z
        .object({
          code: z
            .string()
            .meta({ description: 'Why the job would fail, as in the `error` of a failed job.' }),
          message: z.string().meta({ description: 'Why the job would fail, in words for people.' }),
        })
        .meta({ id: 'Refusal' })
        .optional()
        .meta({ description: 'With `refused`: as in a failed job.' }),
      reason: z
        .string()
        .optional()
        .meta({ description: codes('With `not_inspected`.', REASONS) }),
      message: z.string().optional().meta({ description: 'With `not_inspected`: the reason in words.' }),
    })
    .meta({ id: 'Inspection' })
    .optional()
    .meta({ description: 'What came of the inspection; only with `inspect: true`.' }),
  details: detailsSchema.optional().meta({
    description:
      'Only with `inspect: true`: what was found out about the pictures, as in the record of a job. `changed` counts the faces that a render would change.',
  }),
};
