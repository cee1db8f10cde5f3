import { join } from 'node:path';
import { findSpeechTools } from '@semblance/speech/tools';
import { openPersonFinder } from '@semblance/vision/person-finder';
import type { Case } from './case.ts';
import { DRIVERS, type DriverName } from './cases/driver.ts';
import type { Portrait } from './cases/portrait.ts';
import { chooseStills } from './cases/stills.ts';
import { judgeAvatar } from './judged-avatar.ts';
import type { Judges } from './judged-case.ts';
import { type Driver, judgeMotion, prepareDriver } from './judged-motion.ts';
import { withMedia } from './with-media.ts';

/** Kinds of cases in which a still is animated. */
export const ANIMATED = ['animated: motion', 'animated: avatar'] as const;
export type AnimatedKind = (typeof ANIMATED)[number];
/** Stills that are moved, and that speak: one of each sort, and the first three sorts twice. */
const EACH = 13;

/** Animates portraits: by drivers, two stills in turn by each, and by a sentence that they speak. */
export async function* animationCases(
  kinds: readonly AnimatedKind[],
  { portraits, seed }: { readonly portraits: readonly Portrait[]; readonly seed: number },
  networks: Judges,
  say: (line: string) => void,
): AsyncGenerator<Case> {
  const moving = await chooseStills(portraits, EACH, seed);
  const taken = new Set(moving.map(({ label }) => label));
  const others = portraits.filter(({ label }) => !taken.has(label));
  const speaking = await chooseStills(others, EACH, seed + 1);
  const speech = await findSpeechTools();
  if (kinds.includes('animated: avatar') && !speech.available) say(`no avatars: ${speech.reason}`);
  yield* withMedia(say, async function* (media, folder) {
    const judges = { ...networks, people: await openPersonFinder() };
    try {
      if (kinds.includes('animated: motion')) {
        const drivers: Driver[] = [];
        for (const name of Object.keys(DRIVERS) as DriverName[])
          drivers.push(await prepareDriver(name, judges, media, folder));
        for (const [k, still] of moving.entries()) {
          const driver = drivers[(k >> 1) % drivers.length] as Driver;
          yield await judgeMotion(still, driver, judges, media, join(folder, `motion-${k}`));
        }
      }
      if (kinds.includes('animated: avatar') && speech.available)
        for (const [k, still] of speaking.entries())
          yield await judgeAvatar(still, speech, judges, media, join(folder, `avatar-${k}`));
    } finally {
      await judges.people.close();
    }
  });
}
