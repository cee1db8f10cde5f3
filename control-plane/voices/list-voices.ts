import type { VoiceView } from '@semblance/proto/semblance/admin/v1/admin';
import type { Voice as ListedVoice } from '@semblance/proto/semblance/control/v1/control';
import type { SignedLinks } from '../media/signed-links.ts';
import type { Transaction } from '../storage/sql.ts';
import { offeredVoices, soundOf, type VoiceCatalogue } from './catalogue.ts';

interface PreviewRow {
  readonly sound: string;
  readonly object_key: string | null;
  readonly made_at: Date | null;
  readonly last_error: string | null;
}

async function readPreviews(
  sql: Transaction,
  sounds: readonly string[],
): Promise<ReadonlyMap<string, PreviewRow>> {
  const rows = await sql<PreviewRow[]>`
    select sound, object_key, made_at, last_error from voice_previews where sound = any(${sounds}::text[])`;
  return new Map(rows.map((row) => [row.sound, row]));
}

/**
 * Lists the voices that a caller may choose, each with a link to a sample, without voices whose sample is not made
 * yet.
 * @param linkSeconds lifetime of signed links
 */
export async function listVoices(
  catalogue: VoiceCatalogue,
  links: SignedLinks,
  linkSeconds: number,
): Promise<ListedVoice[]> {
  const voices = (await offeredVoices(catalogue)).map(({ voice }) => ({ voice, sound: soundOf(voice) }));
  const previews = await readPreviews(
    catalogue.sql,
    voices.map(({ sound }) => sound),
  );
  const listed = voices.map(async ({ voice: { id, name, description }, sound }) => {
    const preview = previews.get(sound);
    if (!preview?.object_key || !preview.made_at) return [];
    const previewUrl = await links.to(preview.object_key, preview.made_at, linkSeconds);
    return [{ id, name, description, previewUrl }];
  });
  return (await Promise.all(listed)).flat();
}

/** Lists the voices for the service owner. @param only the one with this id */
export async function listOffered(catalogue: VoiceCatalogue, only?: string): Promise<VoiceView[]> {
  const all = await offeredVoices(catalogue);
  const offered = only === undefined ? all : all.filter(({ voice }) => voice.id === only);
  const previews = await readPreviews(
    catalogue.sql,
    offered.map(({ voice }) => soundOf(voice)),
  );
  return offered.map(({ voice, source }) => {
    const preview = previews.get(soundOf(voice));
    const { id, name, description, model } = voice;
    return {
      id,
      name,
      description,
      source,
      model,
      previewMadeAt: preview?.made_at?.toISOString(),
      previewError: preview?.made_at ? undefined : (preview?.last_error ?? undefined),
    };
  });
}
