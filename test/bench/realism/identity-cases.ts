import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMedia, findMediaTools } from '@semblance/media/media';
import type { Case } from './case.ts';
import type { Portrait } from './cases/portrait.ts';
import type { Judges } from './judged-case.ts';
import { IDENTITY_KINDS, identityClip, judgeIdentity } from './judged-identity.ts';

/** Replaces people in clips by portraits: each kind of clip for half of them, with one of two people. */
export async function* identityCases(
  characters: readonly Portrait[],
  judges: Judges,
  say: (line: string) => void,
): AsyncGenerator<Case> {
  const tools = await findMediaTools();
  if (!tools.available) return say(`no clips: ${tools.reason}`);
  const media = createMedia({ tools });
  const folder = await mkdtemp(join(tmpdir(), 'semblance-realism-identity-'));
  try {
    for (const [k, character] of characters.entries()) {
      const kind = IDENTITY_KINDS[k % IDENTITY_KINDS.length] as (typeof IDENTITY_KINDS)[number];
      const clip = await identityClip(kind, k % 4 < 2 ? 'astronaut' : 'hopper');
      yield await judgeIdentity(kind, character, clip, judges, media, join(folder, String(k)));
    }
  } finally {
    await media.close();
    await rm(folder, { recursive: true, force: true });
  }
}
