import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Findings, Hint } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import { outputSize } from '@semblance/media/size';
import type { ColorTags, Media } from '@semblance/media/types';
import { soundingOf } from '@semblance/speech/announce';
import { type SpokenScript, speakScript } from '@semblance/speech/speech';
import type { Sounding, SpeechTools } from '@semblance/speech/speech-tools';
import { findSpeechTools } from '@semblance/speech/tools';
import { cropsOf } from '@semblance/vision/face-mesh';
import { readShown } from '@semblance/vision/image/picture-file';
import { drawThreads } from '../animate/draw-threads.ts';
import { lookAtStill, type SeenStill } from '../animate/look.ts';
import type { Portrait, Pose } from '../animate/portrait.ts';
import { PortraitVideo } from '../animate/portrait-video.ts';
import { preparePortrait } from '../animate/prepare.ts';
import { resized } from '../animate/resized.ts';
import type { Renderer, RenderTools } from '../renderer.ts';
import { StageTimes } from '../stage-times.ts';
import { videoResult } from '../video-result.ts';
import { FaceTrack } from './face-track.ts';
import { type MouthCommand, MouthTrack } from './mouth-track.ts';
import { speakingLips } from './speaking-lips.ts';

export const FRAME_RATE = 25;
/** Default shorter side of the output, in pixels. */
const DEFAULT_SIDE = 720;
/** Longest side of the output that players accept, in pixels. */
const LONGEST_SIDE = 4096;
const SPEECH_PART = 0.1;
const IMAGE = { role: 'image', name: 'portrait' };

const COLOR: ColorTags = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };

/** Makes the person of a portrait (`image`) speak a script. */
export const renderAvatar: Renderer = async (work, tools) => {
  const found = await findSpeechTools();
  if (!found.available) throw new RenderError('processing_failed', `Nothing can be spoken: ${found.reason}.`);
  return speakWork(work, { ...tools, media: await tools.media(), speech: found });
};

/** Does the work of an Avatar job with these tools. @throws RenderError */
export function speakWork(
  { inputs: { image }, parameters, outputDir }: Pick<RenderWork, 'inputs' | 'parameters' | 'outputDir'>,
  tools: AvatarTools,
): Promise<RenderResult> {
  const { script, voice_id: voiceId, language, voice_gender: gender } = parameters;
  if (!image) throw new RenderError('processing_failed', 'Avatar needs the input image.');
  if (script === undefined) throw new RenderError('processing_failed', 'Avatar needs the parameter script.');
  return speakPortrait(
    { image, script, outputDir, voiceId, language, gender, shorterSide: sideOf(parameters) },
    tools,
  );
}

/** Looks at the portrait. */
export const inspectAvatar = async (
  { inputs: { image }, parameters }: Pick<InspectWork, 'inputs' | 'parameters'>,
  tools: Pick<RenderTools, 'finder' | 'checkpoint'>,
): Promise<Findings> => {
  if (!image) throw new RenderError('processing_failed', 'Avatar needs the input image.');
  return (await lookAtPortrait({ image, shorterSide: sideOf(parameters) }, tools)).still;
};

function sideOf({ output_resolution_p: side }: Readonly<Record<string, string>>): number | undefined {
  return side === undefined ? undefined : Number(side);
}

/** Returns the portrait, the face that speaks, and what was found. @throws RenderError */
async function lookAtPortrait(
  { image, shorterSide = DEFAULT_SIDE }: Pick<AvatarJob, 'image' | 'shorterSide'>,
  tools: Pick<RenderTools, 'finder' | 'checkpoint'>,
): Promise<SeenStill> {
  return lookAtStill(await readPortrait(image, shorterSide), IMAGE, tools);
}

export interface AvatarJob {
  /** Path of the portrait. */
  readonly image: string;
  readonly script: string;
  readonly voiceId?: string | undefined;
  readonly language?: string | undefined;
  /** What a default voice is to sound like, whatever the portrait shows: `female` or `male`. */
  readonly gender?: string | undefined;
  /** Shorter side of the output, which is never larger than the portrait. */
  readonly shorterSide?: number | undefined;
  readonly outputDir: string;
}

export interface AvatarTools
  extends Pick<RenderTools, 'finder' | 'recogniser' | 'signal' | 'checkpoint' | 'onProgress'> {
  readonly media: Media;
  readonly speech: SpeechTools;
  /** Receives the commanded content of every frame. */
  readonly onFrame?: (seconds: number, mouth: MouthCommand, pose: Pose, portrait: Portrait) => void;
}

/** @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`, `processing_failed` */
export async function speakPortrait(job: AvatarJob, tools: AvatarTools): Promise<RenderResult> {
  const { checkpoint, signal, onProgress, media } = tools;
  const times = new StageTimes();
  const { timed } = times;
  onProgress(0, 'portrait');
  const { portrait, still, sounding } = await timed('portrait', async () => {
    const { picture, face, around, still } = await lookAtPortrait(job, tools);
    return {
      portrait: preparePortrait(picture, face, around),
      still,
      sounding: soundingOf(job.gender) ?? (await takenFor(picture, face, tools)),
    };
  });
  checkpoint();
  const sound = join(job.outputDir, '.speech.wav');
  const outputPath = join(job.outputDir, 'output.mp4');
  try {
    const speech = await timed('speech', () =>
      speakScript({
        script: job.script,
        voiceId: job.voiceId,
        language: job.language,
        sounding,
        tools: tools.speech,
        signal,
        path: sound,
        directory: job.outputDir,
        onProgress: (fraction) => onProgress(SPEECH_PART * fraction, 'speech'),
      }),
    );
    const { width, height } = portrait;
    const frames = Math.ceil(speech.seconds * FRAME_RATE);
    const writer = await media.openWriter({
      path: outputPath,
      width,
      height,
      color: COLOR,
      signal,
      frameRate: FRAME_RATE,
      audio: { path: sound },
    });
    const drawn = new PortraitVideo(portrait, { threads: drawThreads(), writer }, (done) => {
      onProgress(SPEECH_PART + (0.95 - SPEECH_PART) * (done / frames), 'animate');
    });
    try {
      const poses = new Poses(portrait, speech, job.script);
      await timed('draw', async () => {
        for (let index = 0; index < frames; index++) {
          checkpoint();
          // A frame is visible until the next one, so it represents the middle of its time.
          const seconds = (index + 0.5) / FRAME_RATE;
          const { mouth, pose } = poses.at(seconds);
          tools.onFrame?.(seconds, mouth, pose, portrait);
          await drawn.add(pose, (index * 1e6) / FRAME_RATE);
        }
        await drawn.finish();
      });
      const written = await timed('write', () => writer.finish((frames * 1e6) / FRAME_RATE));
      onProgress(1, 'done');
      return videoResult(outputPath, written, {
        stages: times.stages,
        details: { width, height, ...saidBy(speech) },
        findings: {
          ...still,
          hints: [...still.hints, ...scriptHints(speech), ...voiceHints(speech, sounding, job.voiceId)],
        },
      });
    } catch (error) {
      await writer.abort();
      throw error;
    } finally {
      drawn.close();
    }
  } finally {
    await rm(sound, { force: true });
  }
}

/** Returns what a default voice is to sound like, where the portrait tells it for sure. */
async function takenFor(
  picture: Picture,
  face: SeenStill['face'],
  tools: Pick<AvatarTools, 'recogniser'>,
): Promise<Sounding | undefined> {
  const recogniser = await tools.recogniser?.();
  return recogniser?.takenFor(cropsOf(picture), face);
}

function saidBy({ voice, otherVoices, leftOut, languageUnknown }: SpokenScript): Record<string, string> {
  return {
    voice,
    ...(otherVoices.length ? { other_voices: otherVoices.join(', ') } : {}),
    ...(leftOut.length ? { left_out: leftOut.join(', ') } : {}),
    ...(languageUnknown ? { language: 'unknown, chosen by the letters of the script' } : {}),
  };
}

function scriptHints({ leftOut, languageUnknown }: SpokenScript): Hint[] {
  const hints: Hint[] = [];
  if (leftOut.length > 0) {
    const some = leftOut.slice(0, 8).join(', ');
    const message = `Some characters of the script cannot be spoken and were left out: ${some}. Write them as words.`;
    hints.push({ code: 'script_shortened', message });
  }
  if (languageUnknown) {
    const message =
      'The language is none that can be spoken, so the letters of the script decided. Name a language such as "en".';
    hints.push({ code: 'language_unknown', message });
  }
  return hints;
}

/** Returns the hint about a voice that was named and differs from what the portrait is taken for. */
function voiceHints(
  { voice, sounding }: SpokenScript,
  wanted: Sounding | undefined,
  named: string | undefined,
): Hint[] {
  if (!wanted && named === undefined) {
    const message = `The voice ${voice} is the default one of the language; the portrait did not tell for sure which would fit. Name a voice_id for another, such as slt or espeak-ng/de+f2 (a woman's), rms or espeak-ng/de (a man's).`;
    return [{ code: 'voice_default', message }];
  }
  if (!wanted || !sounding || sounding === wanted) return [];
  const other = wanted === 'woman' ? 'slt or espeak-ng/de+f2' : 'rms or espeak-ng/de';
  const message = `The voice ${voice} sounds like a ${sounding}'s, which may not fit the person in the portrait. If that is not meant, name another voice_id, such as ${other}.`;
  return [{ code: 'voice_differs', message }];
}

/** Returns the portrait at the size of the output. */
async function readPortrait(path: string, shorterSide: number): Promise<Picture> {
  const picture = await readShown(path, 'The portrait');
  const aspect = Math.max(picture.width, picture.height) / Math.min(picture.width, picture.height);
  return resized(picture, outputSize(picture, Math.min(shorterSide, LONGEST_SIDE / aspect)));
}

/** The poses of a portrait while it speaks. */
class Poses {
  readonly #portrait: Portrait;
  readonly #mouth: MouthTrack;
  readonly #face: FaceTrack;

  constructor(portrait: Portrait, { phones, seconds, voice }: SpokenScript, script: string) {
    this.#portrait = portrait;
    this.#mouth = new MouthTrack(phones);
    this.#face = new FaceTrack(phones, seconds, `${voice}\n${script}`);
  }

  at(seconds: number): { readonly mouth: MouthCommand; readonly pose: Pose } {
    const mouth = this.#mouth.at(seconds, 1 / FRAME_RATE);
    const { eyes, brows, ...place } = this.#face.at(seconds);
    const lips = speakingLips(this.#portrait.rig.lips, mouth);
    return {
      mouth,
      pose: {
        ...place,
        scale: 1,
        expression: { lips, eyes: [eyes, eyes], brows: [brows, 0.7 * brows, brows, 0.7 * brows] },
      },
    };
  }
}
