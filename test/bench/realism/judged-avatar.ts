import { RenderError } from '@semblance/engine-api/engine';
import { FRAME_RATE, speakPortrait } from '@semblance/engine-builtin/internal/avatar/avatar';
import type { Media } from '@semblance/media/types';
import type { SpeechTools } from '@semblance/speech/speech-tools';
import { apertures } from '@semblance/testkit/quality/measures';
import { animationVerdict, type SpeechMeasures } from './animation-measures.ts';
import type { Case } from './case.ts';
import type { Still } from './cases/stills.ts';
import {
  type AnimationJudges,
  cellsOf,
  type Judged,
  judgeAnimation,
  writeStill,
} from './judged-animation.ts';
import { framesOf } from './judged-clip.ts';
import { TEETH, teethArea } from './measures.ts';
import { blinksOf, headWay, pausesOf, widthOf } from './moved-speech.ts';

/** What is said: with pauses, lips that close, and open vowels. */
const SCRIPT = 'Good morning, Bob! My father paid for a map of Panama. Have a very happy day.';

/** Makes a still speak by the whole of Avatar, and measures it. */
export async function judgeAvatar(
  still: Still,
  speech: SpeechTools,
  judges: AnimationJudges,
  media: Media,
  folder: string,
): Promise<Case> {
  const name = `${still.label} (${still.kind})`;
  const place = { kind: 'animated: avatar', measures: undefined, likeness: undefined };
  const image = await writeStill(still, folder);
  const nothing = () => undefined;
  const { signal } = new AbortController();
  const tools = { finder: judges.finder, signal, checkpoint: nothing, onProgress: nothing, media, speech };
  try {
    const job = { image, script: SCRIPT, outputDir: folder } as const;
    const { outputPath } = await speakPortrait(job, tools);
    const frames = await framesOf(media, outputPath);
    const silent = await pausesOf(media, outputPath, frames.length, FRAME_RATE);
    const closed = (frame: number): boolean => silent[frame] ?? false;
    const judged = await judgeAnimation({ still: still.picture, frames, closed }, judges);
    const spoken = speechOf(still, frames, silent, judged);
    const { names, ...verdict } = animationVerdict({ ...judged.measures, ...spoken.measures });
    const at = (names[0] && { ...judged.at, ...spoken.at }[names[0]]) ?? spoken.widest;
    const cells = await cellsOf({ still: still.picture, frames, at, fault: names[0] }, judged);
    return { ...place, ...verdict, label: `${name}, frame ${at}`, cells };
  } catch (error) {
    // A still whose face is not found is refused, and nothing is charged.
    if (!(error instanceof RenderError)) throw error;
    return { ...place, label: `${name}, refused`, worst: 1, faults: [error.message], cells: [] };
  }
}

function speechOf(
  { picture }: Still,
  frames: Parameters<typeof blinksOf>[1],
  silent: readonly boolean[],
  { stillFace, faces }: Judged,
): { measures: SpeechMeasures; at: { pause: number; blinks: number }; widest: number } {
  const open = faces.map((face) => apertures(face).mouth);
  const most = (of: (n: number) => number): number =>
    faces.reduce((best, _, n) => (of(n) > of(best) ? n : best), 0);
  const pauseAt = most((n) => (silent[n] ? (open[n] as number) : -1));
  const speaking = faces.filter((_, n) => !silent[n]);
  const width = speaking.reduce((sum, face) => sum + widthOf(face), 0) / Math.max(1, speaking.length);
  const blinks = blinksOf({ picture, face: stillFace }, frames, faces);
  const smiles = teethArea(picture, stillFace) > TEETH;
  return {
    measures: {
      smile: smiles ? width / widthOf(stillFace) : undefined,
      pause: silent[pauseAt]
        ? Math.max(0, (open[pauseAt] as number) - apertures(stillFace).mouth)
        : undefined,
      blinks: (10 * FRAME_RATE * blinks.length) / Math.max(1, frames.length),
      head: headWay(stillFace, faces),
    },
    at: { pause: pauseAt, blinks: blinks[0] ?? 0 },
    widest: most((n) => open[n] as number),
  };
}
