import { RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Findings, Hint } from '@semblance/engine-api/findings';
import type { Media, Size, VideoFile } from '@semblance/media/types';
import { cropsOf, faceFromPoints } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { framesUnchanged } from '../findings/hints.ts';
import { mappedFaces, type onePersonOf } from '../people/mapping.ts';
import type { RenderTools } from '../renderer.ts';
import type { StageTimes } from '../stage-times.ts';
import { videoResult } from '../video-result.ts';
import { MappedPeople } from '../video-swap/mapped-people.ts';
import { People } from '../video-swap/people.ts';
import { swapVideo } from '../video-swap/swap-video.ts';
import { WHAT } from './character.ts';
import type { CharacterFace } from './character-face.ts';

const HAIR_KEPT: Hint = {
  code: 'hair_kept',
  message:
    'The person in the video has long hair. The character picture shows only a head, so this hair stays and the face is replaced. A character picture that shows the whole body replaces all of the person.',
  input: 'video',
};

/** Returns the refusal of a video without the person who was named. */
export function nobodyNamed(hints: readonly Hint[]): RenderError {
  const message = 'The person of face_id was not found in the reference video (video_key).';
  return new RenderError('face_not_detected', message, { findings: { hints: [...hints] } });
}

/** Returns what became of each person who was found, where one was named. */
export function replacedOf(person: ReturnType<typeof onePersonOf>, frames: number): Pick<Findings, 'mapped'> {
  return person ? { mapped: mappedFaces(person.mapping, new Map([[person.id, frames]])) } : {};
}

/**
 * Replaces only the face of the most prominent person, by the way of Video Swap: for a character of whom the picture
 * shows a head, and a person whose long hair hides what would be seen without it.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function swapFaceOnly(
  job: {
    readonly video: string;
    readonly character: string;
    readonly outputDir: string;
    readonly info: VideoFile;
    readonly size: Size;
    readonly face: CharacterFace;
    readonly hints: readonly Hint[];
    readonly person?: ReturnType<typeof onePersonOf>;
  },
  media: Media,
  tools: Omit<RenderTools, 'media'> & { readonly times: StageTimes },
): Promise<RenderResult> {
  const { info, size, outputDir, hints, person } = job;
  const { finder, settings, times, onProgress } = tools;
  const picture = await readFace(job.character, WHAT);
  const face = faceFromPoints(job.face.points, 1);
  const cover = await finder.coverOf(cropsOf(picture), face);
  const source = { picture, points: face.points, score: face.score, options: { ...settings, cover } };
  const given = {
    path: job.video,
    info,
    size,
    source,
    outputDir,
    people: person ? new MappedPeople(person.mapping, () => 0) : new People({ single: true }),
  };
  const { outputPath, written, swap } = await swapVideo(given, media, {
    ...tools,
    timed: times.timed,
    onTracked: ({ found }) => {
      if (found > 0) return;
      if (person) throw nobodyNamed(hints);
      const message = 'No face was found in the reference video (video_key).';
      throw new RenderError('face_not_detected', message, { findings: { hints: [...hints] } });
    },
  });
  onProgress(1, 'done');
  const unchanged = { unchanged: written.frames - swap.swapped, frames: written.frames };
  return videoResult(outputPath, written, {
    stages: times.stages,
    details: {
      frames_with_swap: swap.swapped,
      frames_with_face: swap.swapped,
      ...size,
    },
    findings: {
      ...replacedOf(person, swap.swapped),
      hints: [...hints, HAIR_KEPT, ...framesUnchanged(unchanged, { role: 'video', name: 'video' }, 'person')],
    },
  });
}
