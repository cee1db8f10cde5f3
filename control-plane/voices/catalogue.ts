import { createHash } from 'node:crypto';
import { readVoice, type Voice } from '@semblance/common/voices/voice';
import type { Transaction } from '../storage/sql.ts';

/** Holds where the voices of the service are. */
export interface VoiceCatalogue {
  /** Those of files, by id: shipped, or of the owner's directory. They stay as they were at the start. */
  readonly files: ReadonlyMap<string, Voice>;
  /** Through which those are read that the owner added by command; a transaction, where it is to see them. */
  readonly sql: Transaction;
}

/** A voice that the service offers. */
export interface OfferedVoice {
  readonly voice: Voice;
  readonly source: 'file' | 'added';
}

/** Every voice, sorted by id. One that was added takes the place of a file's with the same id. */
export async function offeredVoices({ files, sql }: VoiceCatalogue): Promise<OfferedVoice[]> {
  const rows = await sql<{ id: string; definition: unknown }[]>`select id, definition from voices`;
  const offered = new Map<string, OfferedVoice>();
  for (const [id, voice] of files) offered.set(id, { voice, source: 'file' });
  for (const { id, definition } of rows)
    offered.set(id, { voice: readVoice(definition, `voice ${id}`), source: 'added' });
  return [...offered.values()].sort((a, b) => (a.voice.id < b.voice.id ? -1 : 1));
}

/** Counts up when previews of voices that did not change are to be made anew: they have other words, another length. */
const PREVIEWS = 1;

/** SHA-256, in hex, of all that decides on how the preview of a voice sounds; what it is called is none of it. */
export function soundOf({ pitchHz: { low, high }, formantShift, timbre, model }: Voice): string {
  const points = timbre.map(({ hz, db }) => [hz, db]);
  const sound = JSON.stringify([PREVIEWS, low, high, formantShift, points, model ?? null]);
  return createHash('sha256').update(sound).digest('hex');
}
