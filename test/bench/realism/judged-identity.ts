import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import { identitySwap } from '@semblance/engine-builtin/internal/identity-swap/identity-swap';
import type { Media } from '@semblance/media/types';
import {
  type Clip,
  clipFrame,
  walker,
  writeClip,
} from '@semblance/testkit/engine-builtin/identity-swap/clips';
import { BLUE_SHIRT, loadHead, STANDING } from '@semblance/testkit/engine-builtin/identity-swap/figure';
import { openPersonFinder } from '@semblance/vision/person-finder';
import sharp from 'sharp';
import { cell } from '../photo-swap/contact-sheet.ts';
import type { Case } from './case.ts';
import type { Portrait } from './cases/portrait.ts';
import {
  type IdentityMeasures,
  identityVerdict,
  liesOn,
  neckSeam,
  remainsShare,
} from './identity-measures.ts';
import type { Judges } from './judged-case.ts';
import { flickerOf, framesOf, meshes } from './judged-clip.ts';

const SIZE = { width: 640, height: 480 } as const;
const FRAMES = 24;
/** Interval between frames that are measured like pictures. */
const SAMPLED = 5;
/** Distance of a detector's landmarks from the mesh up to which it sees the same face, % of the face's width. */
const SAME_FACE = 9;

/** Kinds of clips: a person who is filmed from near, and one who walks through the room. */
export const IDENTITY_KINDS = ['identity: near', 'identity: walking'] as const;
export type IdentityKind = (typeof IDENTITY_KINDS)[number];

/** Returns a clip of a figure with a photographed head, in a room that is known without it. */
export async function identityClip(kind: IdentityKind, head: 'astronaut' | 'hopper'): Promise<Clip> {
  const { width, height } = SIZE;
  const near = kind === 'identity: near';
  const size = near ? 2.4 * height : 1.5 * height;
  const walk = walker(width, height);
  return {
    ...SIZE,
    frames: FRAMES,
    rate: 20,
    dress: BLUE_SHIRT,
    head: await loadHead(head),
    stance: (t) => {
      const x = width * (0.4 + 0.15 * t);
      const place = { x, y: 1.03 * size, height: size };
      return near ? { ...STANDING, ...place, head: 0.12 * Math.sin(3 * t) } : { ...walk(t), ...place };
    },
  };
}

/** Replaces the person of a clip by a portrait, and measures frames, flicker and what remains of the old head. */
export async function judgeIdentity(
  kind: IdentityKind,
  { label, picture }: Pick<Portrait, 'label' | 'picture'>,
  clip: Clip,
  judges: Judges,
  media: Media,
  folder: string,
): Promise<Case> {
  await mkdir(folder, { recursive: true });
  const [video, character] = [join(folder, 'clip.mp4'), join(folder, 'character.png')];
  await writeClip(media, clip, video);
  const { width, height } = picture;
  const png = await sharp(picture.data, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
  await writeFile(character, png);
  const people = await openPersonFinder();
  const nothing = () => undefined;
  const { signal } = new AbortController();
  const tools = { people, finder: judges.finder, signal, checkpoint: nothing, onProgress: nothing };
  const place = { kind, label, measures: undefined, likeness: undefined };
  try {
    const job = { video, character, resolution: '1k', outputDir: folder } as const;
    const { outputPath } = await identitySwap(job, media, tools);
    const frames = { before: await framesOf(media, video), after: await framesOf(media, outputPath) };
    const { measures, shown } = await measured(clip, frames, judges);
    const faces = await Promise.all(
      [picture, frames.before[shown], frames.after[shown]].map(async (one) => {
        const [face] = one ? await judges.finder.find(one, nothing) : [];
        return one && face ? cell(one, face) : undefined;
      }),
    );
    return { ...place, ...identityVerdict(measures), cells: faces.filter((one) => one !== undefined) };
  } catch (error) {
    // A character that cannot be placed is refused, and nothing is charged.
    if (!(error instanceof RenderError)) throw error;
    return { ...place, label: `${label}, refused`, worst: 0, faults: [], cells: [] };
  } finally {
    await people.close();
  }
}

async function measured(
  clip: Clip,
  { before, after }: { readonly before: readonly Picture[]; readonly after: readonly Picture[] },
  judges: Judges,
): Promise<{ measures: IdentityMeasures; shown: number }> {
  const faces = await meshes(before, [], judges);
  let [frames, found, landmarks, neck, remains, shown] = [0, 0, 0, 0, 0, 0];
  for (let at = 0; at < faces.length; at += SAMPLED) {
    const [face, was, now] = [faces[at], before[at], after[at]];
    if (!face || !was || !now) continue;
    frames++;
    const fresh = await judges.finder.refit(now, face);
    const distance = await judges.landmarks(now, fresh);
    if (distance < SAME_FACE && liesOn(fresh, face)) {
      found++;
      landmarks += distance;
    }
    neck = Math.max(neck, neckSeam(now, fresh));
    const { empty, mask } = clipFrame(clip, at);
    const share = remainsShare({ before: was, after: now, empty }, mask, face);
    if (share > remains) [remains, shown] = [share, at];
  }
  if (frames === 0) throw new Error('no face in the clip');
  const { step: flicker } = flickerOf(before, after, faces);
  return {
    measures: { found: found / frames, landmarks: landmarks / Math.max(1, found), neck, flicker, remains },
    shown,
  };
}
