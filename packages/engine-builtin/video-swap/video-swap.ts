import { RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Hint, LeftReason } from '@semblance/engine-api/findings';
import { outputSize } from '@semblance/media/size';
import type { Media } from '@semblance/media/types';
import { cropsOf } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { faceCounts } from '../findings/face-counts.ts';
import {
  faceHints,
  framesUnchanged,
  hintsOfLeft,
  type Input,
  keptInFrames,
  LOOKED_AT,
  severalFaces,
  sourceHints,
} from '../findings/hints.ts';
import { sampleFaces } from '../first-look/samples.ts';
import { inputOf, type MappingWork, mappedFaces, mappingOf, pathOf, rolesOf } from '../people/mapping.ts';
import type { Inspector, Renderer, RenderTools } from '../renderer.ts';
import { StageTimes } from '../stage-times.ts';
import { prepareSource } from '../swap/source-face.ts';
import { videoResult } from '../video-result.ts';
import { MappedPeople } from './mapped-people.ts';
import type { SwapSource } from './swap-protocol.ts';
import { swapVideo } from './swap-video.ts';

const VIDEO = { role: 'video', name: 'video' };
const FACE = { role: 'face', name: 'face picture' };

/** Runs Video Swap in a worker thread: the face of a picture (`face`) is put onto the faces of a video (`video`). */
export const renderVideoSwap: Renderer = async (work, tools) => {
  const { video, face } = work.inputs;
  if (!video || !face)
    throw new RenderError('processing_failed', 'Video Swap needs the inputs video and face.');
  const shorter = work.parameters.output_resolution_p;
  const mapping = mappingOf(work);
  const job = { video, face, outputDir: work.outputDir, ...(mapping && { mapping }) };
  return videoSwap(shorter ? { ...job, shorterSide: Number(shorter) } : job, await tools.media(), tools);
};

/** Looks at the face picture. */
export const inspectVideoSwap: Inspector = async (work, tools) => {
  const { face } = work.inputs;
  if (!face) throw new RenderError('processing_failed', 'Video Swap needs the input face.');
  const mapping = mappingOf(work);
  return { hints: (await readSources({ face, ...(mapping && { mapping }) }, tools)).hints };
};

/** Reads the pictures of a job in the order in which its people name them. @throws RenderError */
async function readSources(
  { face, mapping }: Pick<VideoSwapJob, 'face' | 'mapping'>,
  tools: Pick<RenderTools, 'finder' | 'settings' | 'checkpoint'>,
): Promise<{ sources: SwapSource[]; hints: Hint[]; people?: MappedPeople }> {
  if (!mapping) {
    const { source, hints } = await readSource(face, tools, FACE);
    return { sources: [source], hints: [...hints] };
  }
  const roles = rolesOf(mapping);
  const read = [];
  for (const role of roles) read.push(await readSource(pathOf(mapping, role), tools, inputOf(role)));
  return {
    sources: read.map(({ source }) => source),
    hints: read.flatMap(({ hints }) => hints),
    people: new MappedPeople(mapping, (role) => roles.indexOf(role)),
  };
}

/** Returns the face to be put on others, and hints about its picture. @throws RenderError */
async function readSource(
  path: string,
  { finder, settings, checkpoint }: Pick<RenderTools, 'finder' | 'settings' | 'checkpoint'>,
  input: Input,
): Promise<{ readonly source: SwapSource; readonly hints: readonly Hint[] }> {
  const picture = await readFace(path);
  const { faces, left } = await finder.look(picture, checkpoint);
  const [face] = faces;
  if (!face) {
    const field = input === FACE ? 'face_key' : 'faces';
    const message = `No face was found in the ${input.name} (${field}).`;
    throw new RenderError('face_not_detected', message, { findings: { hints: hintsOfLeft(left, input) } });
  }
  const options = { ...settings, cover: await finder.coverOf(cropsOf(picture), face) };
  return {
    source: { picture, points: face.points, score: face.score, options },
    hints: [
      ...severalFaces(faces.length, input),
      ...faceHints(face, input, cropsOf(picture)),
      ...sourceHints(prepareSource(picture, face, LOOKED_AT, options), input),
    ],
  };
}

function noFace(left: readonly LeftReason[], hints: readonly Hint[]): RenderError {
  const findings = { faces: faceCounts(0, left), hints: [...hints, ...hintsOfLeft(left, VIDEO)] };
  return new RenderError('face_not_detected', 'No face was found in the video (video_key).', { findings });
}

export interface VideoSwapJob {
  readonly video: string;
  /** Path of the face picture. */
  readonly face: string;
  readonly outputDir: string;
  /** Shorter side of the output in pixels, at most that of the video. */
  readonly shorterSide?: number;
  /** Who gets which face. */
  readonly mapping?: MappingWork;
}

/** @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large` */
export async function videoSwap(
  job: VideoSwapJob,
  media: Media,
  tools: Omit<RenderTools, 'media'>,
): Promise<RenderResult> {
  const { checkpoint, signal, onProgress } = tools;
  const times = new StageTimes();
  const { timed } = times;
  onProgress(0, 'look');
  const info = await media.probe(job.video, 'video', signal);
  const sampled = await timed('look', () =>
    sampleFaces({ path: job.video, info }, { ...tools, media, signal, checkpoint }),
  );
  if (!sampled.shown) throw noFace(sampled.left, []);
  onProgress(0, 'face');
  const { sources, hints, people } = await timed('face', () => readSources(job, tools));
  const [source] = sources as [SwapSource];
  checkpoint();
  const size = outputSize(info.video, job.shorterSide);
  const given = {
    path: job.video,
    info,
    size,
    source,
    sources,
    outputDir: job.outputDir,
    ...(people && { people }),
  };
  const { outputPath, written, swap, tracker } = await swapVideo(given, media, {
    ...tools,
    timed,
    onTracked: ({ found, left }) => {
      if (found === 0) throw noFace(left, hints);
    },
  });
  onProgress(1, 'done');
  return videoResult(outputPath, written, {
    stages: times.stages,
    details: {
      faces: swap.mostFaces,
      frames_with_swap: swap.swapped,
      shots: tracker.shots,
      ...size,
    },
    findings: {
      faces: faceCounts(swap.mostFaces, tracker.left),
      ...(job.mapping && { mapped: mappedFaces(job.mapping, swap.framesOf) }),
      hints: [
        ...hints,
        ...keptInFrames(swap.tracks, swap.swapped),
        ...framesUnchanged(
          { unchanged: written.frames - swap.swapped, frames: written.frames },
          VIDEO,
          'face',
        ),
      ],
    },
  });
}
