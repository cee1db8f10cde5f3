import { ApiError } from '@semblance/common/errors';
import { parseVoice, type Voice, VoiceError, voiceDefinition } from '@semblance/common/voices/voice';
import type {
  AddVoiceRequest,
  AddVoiceResponse,
  RemoveVoiceRequest,
  RemoveVoiceResponse,
} from '@semblance/proto/semblance/admin/v1/admin';
import type { Changed } from '../admin/changes.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { listOffered } from './list-voices.ts';

/** Most voices that may be added by command. */
const MAX_ADDED = 500;

/**
 * Creates the changes that the service owner can make to voices. @param files voices from files, which no command
 * removes
 */
export function createVoiceChanges(files: ReadonlyMap<string, Voice>) {
  return {
    async voiceAdded(
      tx: Transaction,
      { definitionJson }: AddVoiceRequest,
    ): Promise<Changed<AddVoiceResponse>> {
      const voice = parseOrRefuse(definitionJson);
      const definition = voiceDefinition(voice);
      // Two additions at once are counted one after the other.
      await tx`lock table voices in share row exclusive mode`;
      const [before] = await tx<{ definition: Record<string, unknown> }[]>`
        select definition from voices where id = ${voice.id}`;
      const [count] = await tx<{ added: number }[]>`select count(*)::int as added from voices`;
      if (!before && (count?.added ?? 0) >= MAX_ADDED)
        throw new ApiError('invalid_input', `There are ${MAX_ADDED} added voices, which is the most.`);
      await tx`
        insert into voices (id, definition) values (${voice.id}, ${tx.json(definition)}::jsonb)
        on conflict (id) do update set definition = excluded.definition, added_at = now()`;
      const [view] = await listOffered({ files, sql: tx }, voice.id);
      const audit = { subject: voice.id, before: before?.definition, after: definition };
      return { response: { voice: view }, audit };
    },

    async voiceRemoved(
      tx: Transaction,
      { voiceId }: RemoveVoiceRequest,
    ): Promise<Changed<RemoveVoiceResponse>> {
      const [row] = isStorable(voiceId)
        ? await tx<{ definition: Record<string, unknown> }[]>`
            delete from voices where id = ${voiceId} returning definition`
        : [];
      if (row)
        return {
          response: {},
          audit: { subject: voiceId, before: row.definition, after: { removed: true } },
        };
      if (files.has(voiceId))
        throw new ApiError('invalid_input', 'This voice is that of a file: no command removes it.');
      throw new ApiError('not_found', 'There is no such voice.');
    },
  };
}

function parseOrRefuse(definition: string): Voice {
  try {
    return parseVoice(definition, 'voice');
  } catch (error) {
    if (!(error instanceof VoiceError)) throw error;
    throw new ApiError('invalid_input', `${error.faults.join('; ')}.`);
  }
}
