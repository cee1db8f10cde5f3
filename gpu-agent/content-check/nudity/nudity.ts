import type { ContentCheck } from '../check.ts';
import type { LookerProcessOptions } from '../looker/looker-process.ts';
import { lookingCheck } from '../looker/looking-check.ts';
import type { NudityLookerOptions } from './nudity-looker.ts';

export type NudityOptions = NudityLookerOptions & Pick<LookerProcessOptions, 'logger' | 'timeoutMs' | 'nice'>;

/** Rejects pictures, and videos with frames, that a network takes for sexual. */
export function nudity({ threshold, ...process }: NudityOptions): ContentCheck {
  return lookingCheck({
    ...process,
    name: 'nudity',
    about: `pictures and a frame of each second of video, by a network (sexual from a share of ${threshold})`,
    main: new URL('./looker-main.ts', import.meta.url),
    options: { threshold },
  });
}
