import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SHIPPED_VOICES } from '@semblance/common/voices/load-voices';
import { parseVoice, type Voice } from '@semblance/common/voices/voice';

/** A voice that comes along: its JSON, as sessions are given it, and what it says. */
export async function shippedVoice(id: string): Promise<{ readonly json: string; readonly voice: Voice }> {
  const json = await readFile(join(SHIPPED_VOICES, `${id}.json`), 'utf8');
  return { json, voice: parseVoice(json, id) };
}
