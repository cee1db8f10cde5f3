import { type VoiceDefinition, voiceDefinition } from '@semblance/common/voices/voice';
import { isStorable } from '../storage/sql.ts';
import type { VoiceCatalogue } from './catalogue.ts';

/**
 * Returns what a caller may name as `voice_profile_id`, as an agent reads it (`parseVoice` of its JSON). A session
 * carries it along, so that it keeps its voice whatever becomes of the catalogue.
 * @returns undefined: there is no such voice
 */
export async function findVoice(
  { files, sql }: VoiceCatalogue,
  id: string,
): Promise<VoiceDefinition | undefined> {
  if (!isStorable(id)) return undefined;
  const [row] = await sql<{ definition: VoiceDefinition }[]>`select definition from voices where id = ${id}`;
  if (row) return row.definition;
  const voice = files.get(id);
  return voice && voiceDefinition(voice);
}
