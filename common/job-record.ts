import type { Job } from '@semblance/proto/semblance/control/v1/control';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { microsToUsd } from './money.ts';

/** Job record of the API, with its fields in the order of serialisation. */
export interface JobRecord {
  readonly id: string;
  readonly status: string;
  readonly output_url: string | null;
  readonly charged_usd: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** What the engine found out about the inputs of an ended job; absent when it found out nothing. */
  readonly details?: JobDetails;
  /** Signed, expiring link to a small JPEG of the output; absent without an output, and where none was made. */
  readonly preview_url?: string;
  /** As the submit gave it; absent when it gave none. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** When the output is deleted, ISO 8601 UTC; absent without an output, and when it is kept for ever. */
  readonly expires_at?: string;
}

/** What was found out about inputs, as the API answers it. */
export interface JobDetails {
  readonly faces?: {
    readonly found: number;
    readonly changed: number;
    readonly left: readonly { readonly reason: string; readonly count: number }[];
  };
  readonly hints: readonly { readonly code: string; readonly message: string; readonly input?: string }[];
  readonly models?: readonly { readonly name: string; readonly sha256: string; readonly licence: string }[];
  readonly engine_options?: Readonly<Record<string, string>>;
  readonly mapped_faces?: readonly {
    readonly face_id: string;
    readonly given: string | null;
    readonly frames: number;
  }[];
}

/** Returns the record that both the job read and the `data` of a webhook serialise, so that the two are identical. */
export function jobRecord(job: Job): JobRecord {
  return {
    id: job.id,
    status: job.status,
    output_url: job.outputUrl ?? null,
    charged_usd: job.chargedMicros === undefined ? null : microsToUsd(job.chargedMicros),
    error: job.error ? { code: job.error.code, message: job.error.message } : null,
    ...(job.details ? { details: detailsOf(job.details) } : {}),
    ...(job.previewUrl === undefined ? {} : { preview_url: job.previewUrl }),
    ...(job.metadata ? { metadata: sorted(job.metadata.entries) } : {}),
    ...(job.expiresAt === undefined ? {} : { expires_at: job.expiresAt }),
  };
}

/** Returns findings with their fields in the order of serialisation. */
export function detailsOf({ faces, hints, models, options, mapped }: Findings): JobDetails {
  return {
    ...(faces && {
      faces: {
        found: faces.found,
        changed: faces.changed,
        left: faces.left.map(({ reason, count }) => ({ reason, count })),
      },
    }),
    hints: hints.map(({ code, message, input }) => ({
      code,
      message,
      ...(input === undefined ? {} : { input }),
    })),
    ...(models.length > 0
      ? { models: models.map(({ name, sha256, licence }) => ({ name, sha256, licence })) }
      : {}),
    ...(Object.keys(options).length > 0 ? { engine_options: sorted(options) } : {}),
    ...(mapped.length > 0
      ? {
          mapped_faces: mapped.map(({ id, input, frames }) => ({
            face_id: id,
            given: input ?? null,
            frames,
          })),
        }
      : {}),
  };
}

/** Returns texts by name in an order of their own: a database may keep them in another. */
function sorted(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).sort(([a], [b]) => (a < b ? -1 : 1)));
}
