import { HINT_CODES, LEFT_REASONS } from '@semblance/engine-api/findings';
import { JOB_STATUSES } from '@semblance/events/jobs';
import { z } from 'zod';
import { count, isoTime, usd } from '../openapi/parts.ts';

/** Returns the description of a field whose codes are known, and to which later releases may add. */
export function codes(what: string, known: Readonly<Record<string, string>>): string {
  const lines = Object.entries(known).map(([code, meaning]) => `- \`${code}\`: ${meaning}`);
  return `${what} Codes are stable; a later release may have more.\n${lines.join('\n')}`;
}

/** Why a job failed, by code. */
const JOB_ERRORS = {
  content_rejected: 'The input or the result failed a content check.',
  face_not_detected: 'No face was found in the input.',
  input_too_large: 'Over a limit of size or duration that was found during the work.',
  processing_failed: 'The render did not complete, or the job was cancelled.',
  unsupported_format: 'The file could not be decoded once the work had begun.',
};

/** What was found out about inputs. */
export const detailsSchema = z
  .object({
    faces: z
      .object({
        found: count('faces that were looked at, with those left alone.'),
        changed: count('faces that were changed, or that a render would change.'),
        left: z
          .array(
            z
              .object({
                reason: z.string().meta({ description: codes('Why they were left alone.', LEFT_REASONS) }),
                count: count('faces that were left alone for this reason.', 1),
              })
              .meta({ id: 'FacesLeft' }),
          )
          .meta({ description: 'Faces that were left alone, by reason.' }),
      })
      .meta({ id: 'FacesFound' })
      .optional()
      .meta({
        description:
          'Faces in the picture or video that was changed; in a video the most in one frame. Absent where none are counted.',
      }),
    hints: z
      .array(
        z
          .object({
            code: z.string().meta({ description: codes('What was found.', HINT_CODES) }),
            message: z.string().meta({ description: 'What was found, and what to do, in words.' }),
            input: z
              .string()
              .optional()
              .meta({ description: 'Field of the submit, such as `face_key`. Absent: of no one input.' }),
          })
          .meta({ id: 'Hint' }),
      )
      .meta({ description: 'What would give a better result.' }),
    models: z
      .array(
        z
          .object({
            name: z.string().meta({ description: 'Name, as the owner of the service calls it.' }),
            sha256: z.string().meta({ description: 'SHA-256 of its file, 64 hexadecimal digits.' }),
            licence: z.string().meta({ description: 'Licence that the owner of the service states.' }),
          })
          .meta({ id: 'UsedModel' }),
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
    mapped_faces: z
      .array(
        z
          .object({
            face_id: z.string().meta({ description: 'The person, as `POST /faces` told.' }),
            given: z.string().nullable().meta({
              description:
                'Field of the submit with what the person got: the face (such as `faces.0.face_key`), the sound (`audio_key`) of Lip Sync, the picture that the person moves (`image_key`) of Motion Transfer, or who they became (`character_key`) of Identity Swap. Null: the person stayed as they were.',
            }),
            frames: count('frames in which the person got it; 1 in a picture.'),
          })
          .meta({ id: 'MappedFace' }),
      )
      .optional()
      .meta({
        description:
          'With `faces` or the id of one person: what became of each person of the picture or video. Absent where the submit had none.',
      }),
  })
  .meta({ id: 'JobDetails' });

/** How far a call is. */
export const statusSchema = z
  .enum(JOB_STATUSES)
  .meta({ id: 'CallStatus', description: 'How far a job or session is, or how it ended.' });

/** The job record as the API answers it; `common/job-record.ts` makes it. */
export const jobSchema = z
  .object({
    id: z.string().meta({ description: 'Id of the job, as the submit answered it.' }),
    status: statusSchema.meta({
      description:
        '`queued`: waits for an agent. `processing`: an agent works on it. `succeeded`, `failed`: it has ended, for good.',
    }),
    output_url: z.string().nullable().meta({
      format: 'uri',
      description: 'Signed, expiring link. Null until the job succeeds.',
    }),
    charged_usd: usd(
      'What the job cost: null until billing has been reconciled, 0 for a failed job.',
    ).nullable(),
    error: z
      .object({
        code: z.string().meta({ description: codes('Why the job failed.', JOB_ERRORS) }),
        message: z.string().meta({ description: 'Why the job failed, in words for people; may change.' }),
      })
      .meta({ id: 'JobError' })
      .nullable()
      .meta({ description: 'Why the job failed; otherwise null.' }),
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
    expires_at: isoTime(
      'When the output is deleted: by `expires_in` of the submit, or by the setting of the owner of the service, whichever is earlier. Absent until the job succeeds, after the deletion, and where outputs are kept for ever.',
    ).optional(),
  })
  .meta({ id: 'Job' });

export const EXAMPLE_JOB = {
  id: 'job-01k9x3v7m2q8r5t1w4y6z0abcd',
  status: 'processing',
  output_url: null,
  charged_usd: null,
  error: null,
};

const JOB_ID = /^[A-Za-z0-9_-]{1,64}$/;

export const jobPath = z.object({
  job_id: z.string().meta({
    description: 'Id of the job, as the submit answered it.',
    pattern: JOB_ID.source,
  }),
});

/** Returns false for text that cannot be the id of a job, so that no lookup is needed. */
export function isJobIdShaped(text: string): boolean {
  return JOB_ID.test(text);
}
