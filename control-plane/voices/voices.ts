import type { Voice } from '#proto/semblance/control/v1/control.ts';
import type { Transaction } from '../storage/sql.ts';

/** A voice as its engine reads it: JSON that is passed on as it is. */
export type VoiceDefinition = Readonly<Record<string, unknown>>;

/** What a caller may name as `voice_profile_id`; undefined: there is no such voice. */
export async function findVoice(_sql: Transaction, _id: string): Promise<VoiceDefinition | undefined> {
  return undefined;
}

/** The voices a caller may name. None is known yet. */
export async function listVoices(_sql: Transaction): Promise<Voice[]> {
  return [];
}
