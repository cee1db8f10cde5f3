import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { SqlText } from '../storage/sql.ts';

/** Columns of `jobs j` for `toJobRow`. Every query that reads jobs for their owners selects at least them. */
export const JOB_COLUMNS = new SqlText(
  `j.id, j.capability, j.status, j.output_key, j.charged_micros, j.error_code, j.error_message, j.settled_at, j.findings,
   j.metadata, coalesce(j.key_id, j.submit_key_id) as submit_key_id, least(j.output_expires_at, j.settled_at + (select output_retention_seconds from settings) * interval '1 second')
     as output_expires_at,
   (select v.object_key from output_previews v where v.job_id = j.id) as preview_key`,
);

/** Findings as they are stored: without models and options where there were none. */
export type StoredFindings = Omit<Findings, 'models' | 'options' | 'mapped'> &
  Partial<Pick<Findings, 'models' | 'options' | 'mapped'>>;

/** The stored part of a job that its owner may see. */
export interface JobRow {
  readonly id: string;
  readonly capability: string;
  readonly status: string;
  readonly outputKey: string | null;
  readonly chargedMicros: bigint | null;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  readonly settledAt: Date | null;
  readonly findings: StoredFindings | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** When its output is deleted; null: not known before its end, or never. */
  readonly outputExpiresAt: Date | null;
  readonly previewKey: string | null;
  /** API key that submitted it; null: none, or an earlier release without a callback. */
  readonly keyId: string | null;
}

/** Reads a row with {@link JOB_COLUMNS}. */
export function toJobRow(row: Record<string, unknown>): JobRow {
  return {
    id: row.id as string,
    capability: row.capability as string,
    status: row.status as string,
    outputKey: row.output_key as string | null,
    chargedMicros: row.charged_micros as bigint | null,
    errorCode: row.error_code as string | null,
    errorMessage: row.error_message as string | null,
    settledAt: row.settled_at as Date | null,
    findings: row.findings as StoredFindings | null,
    metadata: row.metadata as Record<string, string> | null,
    outputExpiresAt: row.output_expires_at as Date | null,
    previewKey: row.preview_key as string | null,
    keyId: row.submit_key_id as string | null,
  };
}

const JOB_ID = /^job-[0-9a-hjkmnp-tv-z]{26}$/;

/** Returns true for text that can be a job's id; other text needs no lookup. */
export function isJobId(text: string): boolean {
  return JOB_ID.test(text);
}
