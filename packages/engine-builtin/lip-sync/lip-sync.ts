import { join } from 'node:path';
import { RenderError, type RenderStage } from '@semblance/engine-api/engine';
import { outputSize } from '@semblance/media/size';
import type { Media } from '@semblance/media/types';
import { sampleFaces } from '../first-look/samples.ts';
import { renderMouth } from '../mouth/render-mouth.ts';
import { MouthMemory } from '../mouth/rest-mouth.ts';
import { mappedFaces, onePersonOf } from '../people/mapping.ts';
import type { Renderer, RenderTools } from '../renderer.ts';
import { videoResult } from '../video-result.ts';
import { SAMPLE_RATE } from './audio/log-mel.ts';
import { measureLevel, mouthPoses, PoseReader } from './audio/mouth-track.ts';
import { bounce, type ShownFrame } from './bounce.ts';
import { bridged } from './bridge.ts';
import { lipFindings, silent } from './findings.ts';
import { MainFace } from './main-face.ts';
import { steadyFaces } from './steady-face.ts';

/** Largest size of the decoded frames that are held while a video is played backwards, in bytes. */
const HELD_BYTES = 192 * 2 ** 20;
/** Longest assumed display time of the first frame, in microseconds. */
const FIRST_US = 40_000;
/** Share of the total time that the analysis of the sound takes, for the progress. */
const LISTENING = 0.03;

/**
 * Runs Lip Sync: the main face of a video, or the person that a mapping names, speaks the sound of another file. The output is as long as the sound: a
 * longer video is cut, a shorter one is played forth and back. Frames without a face, or with a covered mouth, pass
 * unchanged.
 * @throws RenderError `face_not_detected` when no frame shows one, `unsupported_format`, `input_too_large`
 */
export const renderLipSync: Renderer = async (job, tools) => {
  const { inputs, parameters, outputDir } = job;
  const { video, audio } = inputs;
  if (!video || !audio)
    throw new RenderError('processing_failed', 'Lip Sync needs the inputs video and audio.');
  const { signal, onProgress, checkpoint } = tools;
  const speaker = onePersonOf(job, tools);
  const media = await tools.media();
  const began = performance.now();
  onProgress(0, 'listen');
  const info = await media.probe(video, 'video', signal);
  await media.probe(audio, 'audio', signal);
  const sampled = await sampleFaces({ path: video, info }, { ...tools, media });
  if (!sampled.shown) throw silent(sampled.left, false);
  const picture = info.video;
  const { level, seconds } = await listen(media, audio, tools);
  onProgress(LISTENING, 'render');
  const listened = performance.now();

  const size = outputSize(picture, shorterSide(parameters.output_resolution_p));
  const frameUs = 1e6 / Math.max(1, picture.frameRate);
  const untilUs = Math.round(seconds * 1e6);
  const frames = bounce({
    decode: (fromUs) => media.decodeVideo(video, info, { signal, size, fromUs }),
    untilUs,
    frameUs,
    endUs: picture.endUs,
    held: Math.max(8, Math.floor(HELD_BYTES / (size.width * size.height * 1.5))),
  });
  const outputPath = join(outputDir, 'output.mp4');
  const writer = await media.openWriter({
    path: outputPath,
    ...size,
    color: picture.color,
    frameRate: picture.frameRate,
    audio: { path: audio },
    signal,
  });
  const poses = new PoseReader(
    mouthPoses(media.decodeAudio(audio, { sampleRate: SAMPLE_RATE, signal }), level),
  );
  const work = { track: 0, mouth: 0 };
  let shown = 0;
  let faces = 0;
  let spoken = 0;
  const main = new MainFace(tools.finder, picture.color, checkpoint, speaker?.person);
  try {
    const memory = new MouthMemory();
    let beforeUs = 0;
    for await (const { frame, startUs, face, cut, covered } of steadyFaces(
      bridged(followed(frames, main, work)),
    )) {
      checkpoint();
      // The mouth follows the middle of the time in which the frame is visible, which is as long as that of the
      // frame before. The mean over a video with a standing last frame would be too long.
      const seenUs = Math.min(frameUs, shown > 0 ? startUs - beforeUs : FIRST_US);
      const pose = await poses.at((startUs + seenUs / 2) / 1e6);
      if (cut) memory.reset();
      if (face) faces++;
      // What is in front of the mouth stays, with the mouth behind it.
      if (face && !covered) {
        const start = performance.now();
        renderMouth(frame, face, pose, memory, cut ? frameUs / 1e6 : (startUs - beforeUs) / 1e6);
        work.mouth += performance.now() - start;
        spoken++;
      }
      await writer.write({ ptsUs: startUs, data: frame.data });
      release(frame.data);
      beforeUs = startUs;
      shown++;
      onProgress(LISTENING + (0.99 - LISTENING) * Math.min(1, (startUs + frameUs) / untilUs), 'render');
    }
    if (spoken === 0) throw silent(main.left, faces > 0, speaker !== undefined);
    onProgress(0.99, 'write');
    const written = await writer.finish(untilUs);
    onProgress(1, 'done');
    return videoResult(outputPath, written, {
      stages: stages(work, listened - began, performance.now() - listened),
      details: { frames_with_face: spoken, ...size },
      findings: lipFindings(
        main.left,
        { frames: shown, faces, spoken },
        speaker && mappedFaces(speaker.mapping, new Map([[speaker.id, spoken]])),
      ),
    });
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    await poses.close();
  }
};

/** Returns the level and length of the sound. */
async function listen(
  media: Media,
  audio: string,
  { signal, checkpoint }: RenderTools,
): Promise<{ level: number; seconds: number }> {
  let samples = 0;
  const counted = async function* (): AsyncGenerator<Float32Array> {
    for await (const piece of media.decodeAudio(audio, { sampleRate: SAMPLE_RATE, signal })) {
      checkpoint();
      samples += piece.length;
      yield piece;
    }
  };
  const level = await measureLevel(counted());
  if (samples === 0) throw new RenderError('unsupported_format', 'The audio (audio_key) has no sound in it.');
  return { level, seconds: samples / SAMPLE_RATE };
}

/** Yields the frames with the main face of each. */
async function* followed(frames: AsyncIterable<ShownFrame>, main: MainFace, work: { track: number }) {
  for await (const shown of frames) {
    const start = performance.now();
    const seen = await main.follow(shown.frame);
    work.track += performance.now() - start;
    yield { ...shown, ...seen };
  }
}

/**
 * Frees the memory of a written frame at once. The garbage collector would cost as much time as tracking the face.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

function shorterSide(parameter: string | undefined): number | undefined {
  if (parameter === undefined) return undefined;
  const side = Number(parameter);
  if (!Number.isInteger(side) || side < 2)
    throw new RenderError(
      'processing_failed',
      `output_resolution_p is ${parameter}, which is no number of lines.`,
    );
  return side;
}

function stages(work: { track: number; mouth: number }, listen: number, render: number): RenderStage[] {
  return [
    { name: 'listen', milliseconds: listen },
    { name: 'track', milliseconds: work.track },
    { name: 'mouth', milliseconds: work.mouth },
    { name: 'decode and encode', milliseconds: Math.max(0, render - work.track - work.mouth) },
  ];
}
