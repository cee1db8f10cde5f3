import { type VoiceDefinition, voiceDefinition } from '@semblance/common/voices/voice';
import { isStorable } from '../storage/sql.ts';
import type { VoiceCatalogue } from './catalogue.ts';

/**
 * Returns the voice of a `voice_profile_id` in the form of an agent (`parseVoice` of its JSON). A session carries
 * it along, so its voice does not change with the catalogue.
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
