import { join } from 'node:path';
import { RenderError, type RenderRequest, type RenderResult } from '@semblance/engine-api/engine';
import { sampleFaces } from '@semblance/engine-builtin/first-look/samples';
import { bounce, type ShownFrame } from '@semblance/engine-builtin/lip-sync/bounce';
import { bridged } from '@semblance/engine-builtin/lip-sync/bridge';
import { lipFindings, silent } from '@semblance/engine-builtin/lip-sync/findings';
import { MainFace } from '@semblance/engine-builtin/lip-sync/main-face';
import { type FacedFrame, steadyFaces } from '@semblance/engine-builtin/lip-sync/steady-face';
import { videoResult } from '@semblance/engine-builtin/video-result';
import { outputSize } from '@semblance/media/size';
import type { Media } from '@semblance/media/types';
import { gainOf, MelReader, SAMPLE_RATE } from './sound/mel.ts';
import { speak } from './stages/lips.ts';
import type { Models } from './stages/models.ts';
import { StageLog } from './stages/models.ts';
import type { VideoParts } from './video-swap.ts';
import { editAround } from './vision/frame-edit.ts';

/** Largest size of the decoded frames that are held while a video is played backwards, in bytes. */
const HELD_BYTES = 192 * 2 ** 20;
/** Frames processed at once; their mouths are drawn in one run. */
const AT_ONCE = 8;
const LISTENING = 0.03;

export interface LipParts extends VideoParts {
  readonly models: Models;
}

/**
 * Makes the main face of a video speak the sound of another file; the owner's model draws the mouth. The output is
 * as long as the sound, as with `builtin`: a longer video is cut, a shorter one is played forth and back.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function lipSync(parts: LipParts, request: RenderRequest): Promise<RenderResult> {
  const { media, finder } = parts;
  const { inputs, parameters, outputDir, signal, onProgress } = request;
  const { video, audio } = inputs;
  if (!video || !audio)
    throw new RenderError('processing_failed', 'Lip Sync needs the inputs video and audio.');
  const log = new StageLog();
  onProgress(0, 'listen');
  const info = await media.probe(video, 'video', signal);
  await media.probe(audio, 'audio', signal);
  const checkpoint = () => signal.throwIfAborted();
  const sampled = await log.builtin('look', 'facemesh', () =>
    sampleFaces({ path: video, info }, { media, finder, signal, checkpoint }),
  );
  if (!sampled.shown) throw silent(sampled.left, false);
  const picture = info.video;
  const heard = await log.own('listen', () => listen(media, audio, signal));
  const untilUs = Math.round(1e6 * heard.seconds);
  const shorter = parameters.output_resolution_p;
  const size = outputSize(picture, shorter ? Number(shorter) : undefined);
  const frameUs = 1e6 / Math.max(1, picture.frameRate);
  const outputPath = join(outputDir, 'output.mp4');
  const writer = await media.openWriter({
    path: outputPath,
    ...size,
    color: picture.color,
    frameRate: picture.frameRate,
    signal,
    audio: { path: audio },
  });
  const sound = media.decodeAudio(audio, { sampleRate: SAMPLE_RATE, signal });
  const mel = new MelReader(sound, gainOf(heard.peak));
  const counts = { frames: 0, faces: 0, spoken: 0 };
  const flush = async (group: readonly FacedFrame[]): Promise<void> => {
    signal.throwIfAborted();
    // The windows are read in order, because the sound is read once.
    const windows: Float32Array<ArrayBuffer>[] = [];
    for (const { startUs } of group) windows.push(await mel.window(startUs / 1e6));
    await Promise.all(
      group.map(({ frame, face, covered }, i) => {
        if (face) counts.faces++;
        // What is in front of the mouth stays, with the mouth behind it.
        if (!face || covered) return undefined;
        counts.spoken++;
        return editAround(frame, face, picture.color, (part, mesh) =>
          drawMouth(parts, part, mesh, windows[i] as Float32Array<ArrayBuffer>, signal, log),
        );
      }),
    );
    for (const { frame, startUs } of group) {
      await log.own('write', () => writer.write({ ptsUs: startUs, data: frame.data }));
      counts.frames++;
      onProgress(LISTENING + (0.99 - LISTENING) * Math.min(1, (startUs + frameUs) / untilUs), 'render');
    }
  };
  try {
    const shown = bounce({
      decode: (fromUs) => media.decodeVideo(video, info, { signal, size, fromUs }),
      untilUs,
      frameUs,
      endUs: picture.endUs,
      held: Math.max(8, Math.floor(HELD_BYTES / (size.width * size.height * 1.5))),
    });
    const main = new MainFace(parts.finder, picture.color, () => signal.throwIfAborted());
    let group: FacedFrame[] = [];
    for await (const frame of steadyFaces(bridged(followed(shown, main, log)))) {
      group.push(frame);
      if (group.length < AT_ONCE) continue;
      await flush(group);
      group = [];
    }
    await flush(group);
    if (counts.spoken === 0) throw silent(main.left, counts.faces > 0);
    onProgress(0.99, 'write');
    const written = await log.own('write', () => writer.finish(untilUs));
    onProgress(1, 'done');
    return videoResult(outputPath, written, {
      stages: log.stages,
      details: { frames_with_face: counts.spoken, ...size, ...log.makers },
      findings: { ...lipFindings(main.left, counts), models: log.models },
    });
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    await mel.close();
  }
}

async function drawMouth(
  { swap, models }: LipParts,
  picture: Parameters<typeof speak>[1],
  face: Parameters<typeof speak>[2],
  mel: Float32Array<ArrayBuffer>,
  signal: AbortSignal,
  log: StageLog,
): Promise<void> {
  const lips = models.need('lips');
  const mask = await log.onnx('lips', lips, () => speak(lips, picture, face, mel, signal));
  if (models.get('enhancer')) {
    // The model draws only 96 pixels, so the drawn part is restored at the enhancer's size.
    const placed = await swap.places.place(picture, face, signal, log);
    await swap.enhanceFaces(picture, [placed], [mask], signal, log);
  }
}

/** Returns the length of a sound, and its largest sample, whose full scale is 1. */
async function listen(
  media: Media,
  audio: string,
  signal: AbortSignal,
): Promise<{ readonly seconds: number; readonly peak: number }> {
  let samples = 0;
  let peak = 0;
  for await (const piece of media.decodeAudio(audio, { sampleRate: SAMPLE_RATE, signal })) {
    samples += piece.length;
    for (const sample of piece) peak = Math.max(peak, Math.abs(sample));
  }
  if (samples === 0) throw new RenderError('unsupported_format', 'The audio (audio_key) has no sound in it.');
  return { seconds: samples / SAMPLE_RATE, peak };
}

/** Yields the frames with the main face of each. */
async function* followed(frames: AsyncIterable<ShownFrame>, main: MainFace, log: StageLog) {
  for await (const shown of frames) {
    const seen = await log.builtin('tracker', 'facemesh', () => main.follow(shown.frame));
    yield { ...shown, ...seen };
  }
}
