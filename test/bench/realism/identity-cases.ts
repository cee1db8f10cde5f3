import { join } from 'node:path';
import type { Case } from './case.ts';
import type { Portrait } from './cases/portrait.ts';
import type { Judges } from './judged-case.ts';
import { IDENTITY_KINDS, identityClip, judgeIdentity } from './judged-identity.ts';
import { withMedia } from './with-media.ts';

/** Replaces people in clips by portraits: each kind of clip for half of them, with one of two people. */
export async function* identityCases(
  characters: readonly Portrait[],
  judges: Judges,
  say: (line: string) => void,
): AsyncGenerator<Case> {
  yield* withMedia(say, async function* (media, folder) {
    for (const [k, character] of characters.entries()) {
      const kind = IDENTITY_KINDS[k % IDENTITY_KINDS.length] as (typeof IDENTITY_KINDS)[number];
      const clip = await identityClip(kind, k % 4 < 2 ? 'astronaut' : 'hopper');
      yield await judgeIdentity(kind, character, clip, judges, media, join(folder, String(k)));
    }
  });
}
