import { join } from 'node:path';
import { RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Hint } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import { FrameMemory } from '@semblance/media/frame-memory';
import { openLike } from '@semblance/media/open-like';
import { prefetch } from '@semblance/media/prefetch';
import type { Media, Size, VideoFrame } from '@semblance/media/types';
import type { Person, PersonFinder } from '@semblance/vision/person';
import { peopleOf } from '../animate/look.ts';
import { framesUnchanged } from '../findings/hints.ts';
import { samplesShow } from '../first-look/samples.ts';
import { onePersonOf } from '../people/mapping.ts';
import type { Inspector, Renderer, RenderTools } from '../renderer.ts';
import { StageTimes } from '../stage-times.ts';
import { videoResult } from '../video-result.ts';
import { CutDetector } from '../video-swap/cuts.ts';
import { shrunk } from '../video-swap/frame-part.ts';
import {
  characterHints,
  drawnOn,
  fittedTo,
  mayBeHead,
  readCharacter,
  refuseBlur,
  showsHead,
} from './character.ts';
import { PersonFaceFollower } from './face-follow.ts';
import { FaceFront } from './face-front.ts';
import { nobodyNamed, replacedOf, swapFaceOnly } from './face-only.ts';
import { firstLook } from './first-look.ts';
import { scaledPerson } from './follow.ts';
import { HumanCheck } from './human.ts';
import { NamedPerson } from './named-person.ts';
import { SceneVideo, sceneThreads } from './scene-threads.ts';
import { PersonTracker, searchStep } from './search.ts';

/** Longer side of the output, in pixels. */
export const LONGER_SIDE = { '1k': 1024, '2k': 2048 } as const;
export type Resolution = keyof typeof LONGER_SIDE;
const DECODED_AHEAD = 4;
const ONLY_HEAD: Hint = {
  code: 'head_only',
  message:
    'The character picture ends above the knees and the video shows the legs of the person, so only the head is replaced. A character picture that shows the whole body replaces all of the person.',
  input: 'character',
};
const VIDEO = { role: 'video', name: 'video' };

/**
 * Runs Identity Swap in a worker thread: the person in `video` is replaced by the person in the picture
 * `character`.
 */
export const renderIdentitySwap: Renderer = async (work, tools) => {
  const { video, character } = work.inputs;
  if (!video || !character) {
    throw new RenderError('processing_failed', 'Identity Swap needs the inputs video and character.');
  }
  const resolution = work.parameters.resolution === '2k' ? '2k' : '1k';
  const person = onePersonOf(work, tools);
  const job = { video, character, resolution, outputDir: work.outputDir, ...(person && { person }) } as const;
  return identitySwap(job, await tools.media(), { ...tools, people: await peopleOf() });
};

/** Looks at the character picture. */
export const inspectIdentitySwap: Inspector = async ({ inputs: { character } }, { finder, checkpoint }) => {
  if (!character) throw new RenderError('processing_failed', 'Identity Swap needs the input character.');
  const tools = { people: await peopleOf(), faces: finder };
  return { hints: characterHints(await readCharacter(character, tools, checkpoint)) };
};

export interface IdentitySwapJob {
  readonly video: string;
  readonly character: string;
  readonly resolution: Resolution;
  readonly outputDir: string;
  /** Who is replaced; absent: the most prominent person. */
  readonly person?: NonNullable<ReturnType<typeof onePersonOf>>;
}

/** @throws RenderError `face_not_detected`, `processing_failed`, `unsupported_format`, `input_too_large` */
export async function identitySwap(
  job: IdentitySwapJob,
  media: Media,
  tools: Omit<RenderTools, 'media'> & {
    readonly people: PersonFinder;
  },
): Promise<RenderResult> {
  const { people, finder: faces, checkpoint, signal, onProgress } = tools;
  const named = job.person && new NamedPerson({ people, faces, checkpoint }, job.person.person);
  const anyone = async (frame: VideoFrame): Promise<boolean> => {
    const whole = { x: 0, y: 0, width: frame.width, height: frame.height };
    const { picture } = shrunk(frame, whole, searchStep(frame), video.color);
    // A tracker of its own: a person that was followed over so many frames at once would be misplaced.
    return (await new PersonTracker(people).track(picture)) !== undefined;
  };
  const times = new StageTimes();
  const { timed } = times;
  onProgress(0, 'look');
  const info = await media.probe(job.video, 'video', signal);
  const { video } = info;
  const sampled = { path: job.video, info };
  const showsPerson = await timed('look', () => samplesShow(sampled, { media, signal, checkpoint }, anyone));
  if (!showsPerson) throw noPerson([]);
  onProgress(0, 'character');
  const size = sizeFor(video, job.resolution);
  const read = await timed('character', () => readCharacter(job.character, { people, faces }, checkpoint));
  checkpoint();
  const look = () => firstLook({ path: job.video, info, size }, media, tools, named);
  const shown = mayBeHead(read) ? await timed('find', look) : undefined;
  const drawn = shown ? drawnOn(read, shown) : read;
  const hints = [...characterHints(read), ...(drawn.headOnly ? [ONLY_HEAD] : [])];
  if (showsHead(drawn) && shown?.longHair)
    return swapFaceOnly({ ...job, info, size, face: drawn.face, hints }, media, { ...tools, times });
  const character = await fittedTo(drawn, size.height);
  const outputPath = join(job.outputDir, 'output.mp4');
  const memory = new FrameMemory();
  const writer = await openLike(
    media,
    { path: job.video, ...info },
    { path: outputPath, ...size, signal, memory },
  );
  const scene = new SceneVideo(
    character,
    { ...size, color: video.color },
    { threads: sceneThreads(), writer, signal },
  );
  try {
    const expected = Math.max(1, video.frameCount);
    const step = searchStep(size);
    const tracker = new PersonTracker(people, named);
    const follower = new PersonFaceFollower(faces, checkpoint);
    const front = new FaceFront(faces, video.color);
    const human = new HumanCheck({ people, faces, checkpoint });
    const look = async (frame: VideoFrame): Promise<Person | undefined> => {
      const whole = { x: 0, y: 0, width: frame.width, height: frame.height };
      const part = (every: number): Picture => shrunk(frame, whole, every, video.color).picture;
      const small = await tracker.track(part(step), { whole: () => part(1), step });
      const person = small && scaledPerson(small, step);
      if (person) await human.look(frame.index, () => part(1), person);
      return person;
    };
    const cuts = new CutDetector();
    let [found, seen] = [0, false];
    const decoded = prefetch(media.decodeVideo(job.video, info, { signal, size, memory }), DECODED_AHEAD);
    for await (const frame of decoded) {
      checkpoint();
      if (cuts.isCut(frame)) {
        await timed('draw', () => scene.cut());
        tracker.reset();
        follower.reset();
        front.reset();
      }
      // While the networks process this frame, another thread draws the frames before it.
      const person = await timed('find', () => look(frame));
      checkpoint();
      if (person) found++;
      const face = character.face && (await timed('face', () => follower.follow(frame, person)));
      if (face && !seen) {
        refuseBlur(character, face, hints);
        seen = true;
      }
      const cover = face && (await timed('face', () => front.look(frame, face, person)));
      await timed('draw', () => scene.add(frame, person, face, cover));
      onProgress(0.02 + 0.95 * Math.min(1, (frame.index + 1 + scene.written) / 2 / expected), 'swap');
    }
    if (found === 0) throw job.person ? nobodyNamed(hints) : noPerson(hints);
    human.decide();
    await timed('draw', () => scene.finish());
    if (scene.drawn === 0) {
      throw new RenderError(
        'face_not_detected',
        'The character picture shows only a head, and the person in the reference video (video_key) shows no face.',
        { findings: { hints } },
      );
    }
    onProgress(0.97, 'write');
    const written = await timed('write', () => writer.finish(video.endUs));
    onProgress(1, 'done');
    return videoResult(outputPath, written, {
      stages: times.stages,
      details: {
        frames_with_swap: scene.drawn,
        frames_with_face: scene.faces,
        ...size,
      },
      findings: {
        ...replacedOf(job.person, scene.drawn),
        hints: [
          ...hints,
          ...framesUnchanged(
            { unchanged: written.frames - scene.drawn, frames: written.frames },
            VIDEO,
            'person',
          ),
        ],
      },
    });
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    scene.close();
  }
}

function noPerson(hints: readonly Hint[]): RenderError {
  const message = 'No person was found in the reference video (video_key).';
  return new RenderError('face_not_detected', message, { findings: { hints } });
}

/** Returns the size of the output: its longer side as requested, never larger than the video. */
export function sizeFor(video: Size, resolution: Resolution): Size {
  const scale = Math.min(1, LONGER_SIDE[resolution] / Math.max(video.width, video.height));
  const even = (length: number): number => Math.max(2, 2 * Math.round((length * scale) / 2));
  return { width: even(video.width), height: even(video.height) };
}
