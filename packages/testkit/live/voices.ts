import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SHIPPED_VOICES } from '@semblance/common/voices/load-voices';
import { parseVoice, type Voice } from '@semblance/common/voices/voice';

/** Reads a shipped voice: the JSON that sessions receive, and its parsed content. */
export async function shippedVoice(id: string): Promise<{ readonly json: string; readonly voice: Voice }> {
  const json = await readFile(join(SHIPPED_VOICES, `${id}.json`), 'utf8');
  return { json, voice: parseVoice(json, id) };
}
