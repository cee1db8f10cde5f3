import { HINT_CODES, LEFT_REASONS } from '@semblance/engine-api/findings';
import { JOB_STATUSES } from '@semblance/events/jobs';
import { z } from 'zod';
import { isoTime, usd } from '../openapi/parts.ts';

const count = z.int().min(0);

/** Returns the description of a field whose codes are known, and to which later releases may add. */
export function codes(what: string, known: Readonly<Record<string, string>>): string {
  const lines = Object.entries(known).map(([code, meaning]) => `- \`${code}\`: ${meaning}`);
  return `${what} Codes are stable; a later release may have more.\n${lines.join('\n')}`;
}

/** What was found out about inputs. */
export const detailsSchema = z
  .object({
    faces: z
      .object({
        found: count.meta({ description: 'Faces that were looked at, with those left alone.' }),
        changed: count,
        left: z
          .array(
            z.object({
              reason: z.string().meta({ description: codes('Why they were left alone.', LEFT_REASONS) }),
              count,
            }),
          )
          .meta({ description: 'Faces that were left alone, by reason.' }),
      })
      .optional()
      .meta({
        description:
          'Faces in the picture or video that was changed; in a video the most in one frame. Absent where none are counted.',
      }),
    hints: z
      .array(
        z.object({
          code: z.string().meta({ description: codes('What was found.', HINT_CODES) }),
          message: z.string().meta({ description: 'What was found, and what to do, in words.' }),
          input: z.string().optional().meta({ description: 'Field of the submit, such as `face_key`.' }),
        }),
      )
      .meta({ description: 'What would give a better result.' }),
    models: z
      .array(
        z.object({
          name: z.string().meta({ description: 'As the owner of the service calls it.' }),
          sha256: z.string().meta({ description: 'SHA-256 of its file, 64 hexadecimal digits.' }),
          licence: z.string().meta({ description: 'Licence that the owner of the service states.' }),
        }),
      )
      .optional()
      .meta({
        description:
          'Models of the owner of the service that the output was made with. Absent where there are none.',
      }),
    engine_options: z.record(z.string(), z.string()).optional().meta({
      description:
        'Options of the engine that the output was made with, as text: those that the submit gave, and those that the owner of the service set. Absent where there are none.',
    }),
  })
  .meta({ id: 'JobDetails' });

/** The job record as the API answers it; `common/job-record.ts` makes it. */
export const jobSchema = z
  .object({
    id: z.string(),
    status: z.enum(JOB_STATUSES),
    output_url: z.string().nullable().meta({
      format: 'uri',
      description: 'Signed, expiring link. Null until the job succeeds.',
    }),
    charged_usd: usd
      .nullable()
      .meta({ description: 'Null until billing has been reconciled. 0 for a failed job.' }),
    error: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .meta({ description: 'Of a failed job; otherwise null.' }),
    details: detailsSchema.optional().meta({
      description:
        'What was found out about the inputs of a job that succeeded or failed. Absent until then, and where nothing is known.',
    }),
    preview_url: z.string().optional().meta({
      format: 'uri',
      description:
        'Signed, expiring link to a small picture of the output, a JPEG of at most 320 pixels a side; of a video a moment near its beginning. Absent until the job succeeds, after the deletion of the output, and where none could be made.',
    }),
    metadata: z
      .record(z.string(), z.string())
      .optional()
      .meta({ description: 'As the submit gave it. Absent when it gave none.' }),
    expires_at: isoTime.optional().meta({
      description:
        'When the output is deleted: by `expires_in` of the submit, or by the setting of the owner of the service, whichever is earlier. Absent until the job succeeds, after the deletion, and where outputs are kept for ever.',
    }),
  })
  .meta({ id: 'Job' });

export const EXAMPLE_JOB = {
  id: 'job-01k9x3v7m2q8r5t1w4y6z0abcd',
  status: 'processing',
  output_url: null,
  charged_usd: null,
  error: null,
};

export const jobPath = z.object({
  job_id: z.string().min(1).meta({ description: 'As the submit answered it.' }),
});

/** Returns false for text that cannot be the id of a job, so that no lookup is needed. */
export function isJobIdShaped(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text);
}
