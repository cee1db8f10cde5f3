import { createHash } from 'node:crypto';
import { readVoice, type Voice } from '@semblance/common/voices/voice';
import type { Transaction } from '../storage/sql.ts';

/** Sources of the service's voices. */
export interface VoiceCatalogue {
  /** Voices from files, by id: shipped, or from the owner's directory. They stay as they were at the start. */
  readonly files: ReadonlyMap<string, Voice>;
  /** Connection to read the voices that the owner added by command; a transaction that should see its own changes. */
  readonly sql: Transaction;
}

/** A voice that the service offers. */
export interface OfferedVoice {
  readonly voice: Voice;
  readonly source: 'file' | 'added';
}

/** Returns every voice, sorted by id. An added one replaces a file's with the same id. */
export async function offeredVoices({ files, sql }: VoiceCatalogue): Promise<OfferedVoice[]> {
  const rows = await sql<{ id: string; definition: unknown }[]>`select id, definition from voices`;
  const offered = new Map<string, OfferedVoice>();
  for (const [id, voice] of files) offered.set(id, { voice, source: 'file' });
  for (const { id, definition } of rows)
    offered.set(id, { voice: readVoice(definition, `voice ${id}`), source: 'added' });
  return [...offered.values()].sort((a, b) => (a.voice.id < b.voice.id ? -1 : 1));
}

/** Incremented when previews of unchanged voices must be made again, for other words, length or level. */
const PREVIEWS = 2;

/** Returns the SHA-256, in hex, of everything that determines the sound of a voice's preview; its name does not. */
export function soundOf({ pitchHz: { low, high }, formantShift, timbre, model }: Voice): string {
  const points = timbre.map(({ hz, db }) => [hz, db]);
  const sound = JSON.stringify([PREVIEWS, low, high, formantShift, points, model ?? null]);
  return createHash('sha256').update(sound).digest('hex');
}
