import { RenderError } from '@semblance/engine-api/engine';
import {
  BadMessageError,
  type LiveFormat,
  type LiveMedia,
  type OpenLiveOptions,
} from '@semblance/engine-api/live-engine';
import type { Character } from '@semblance/engine-builtin/live-swap/characters';
import { readJpegHeader } from '@semblance/engine-builtin/live-swap/jpeg-header';
import { LiveVideoError, PICTURE_LIMITS, RECOMMENDED } from '@semblance/engine-builtin/live-swap/types';
import { LiveRefusal } from '@semblance/engine-sidecar/live/live-answers';
import type { LiveSidecar } from '@semblance/engine-sidecar/live/live-sidecar';
import { readyPictures } from '../../../assets/ready-inputs.ts';
import { keptFor, lookOf } from '../swap/live-swap-engine.ts';
import { createPictureFlow } from './picture-flow.ts';
import type { SidecarMedia } from './sidecar-engine.ts';

/** What a session of pictures asks of its sidecar. */
type Asked =
  /** The caller's own face stays: pictures pass unchanged, and the sidecar is not asked. */
  | { readonly own: true; readonly note: string | undefined }
  | {
      readonly own?: undefined;
      readonly settings: Readonly<Record<string, string>>;
      readonly inputs: Readonly<Record<string, string>>;
      readonly note?: string | undefined;
    };

/**
 * Creates the pictures of Live Swap Pro through a sidecar. One that takes prompts gets the text as it is. Any other gets
 * the picture of the face that the prompt asks for: an upload, or the portrait of a character.
 */
export function createPictureMedia(characters: ReadonlyMap<string, Character>): SidecarMedia {
  return {
    check() {},
    async open(sidecar: LiveSidecar, options: OpenLiveOptions): Promise<LiveMedia> {
      const takesPrompt = sidecar.info?.takesPrompt === true;
      const asked = takesPrompt ? askedByPrompt(options) : askedByFace(options, characters);
      if (asked.own) return passing(sidecar, asked.note);
      try {
        const { settings, inputs } = asked;
        const ready = await readyPictures(inputs);
        const session = await sidecar.open({ settings, inputs: ready, signal: options.signal });
        const note = session.note || asked.note;
        return withFormat(createPictureFlow(session, options.onFailed), sidecar, note);
      } catch (error) {
        if (error instanceof LiveRefusal || error instanceof RenderError)
          return passing(sidecar, keptFor(error.message));
        throw error;
      }
    },
  };
}

function askedByPrompt({ settings, inputs, unusable }: OpenLiveOptions): Asked {
  const { prompt } = settings;
  const lacks = unusable?.face;
  return {
    settings: prompt === undefined ? {} : { prompt },
    inputs,
    note: lacks && `The picture that the prompt names is not used: ${lacks}`,
  };
}

function askedByFace(
  { settings, inputs, unusable }: OpenLiveOptions,
  characters: ReadonlyMap<string, Character>,
): Asked {
  const { look, note } = lookOf(settings.prompt, inputs.face, unusable?.face, [...characters.keys()]);
  if (look.kind === 'face') return { settings: {}, inputs: { face: look.path } };
  const portrait = look.kind === 'character' ? characters.get(look.name)?.portrait : undefined;
  return portrait === undefined ? { own: true, note } : { settings: {}, inputs: { face: portrait } };
}

function passing(sidecar: LiveSidecar, note: string | undefined): LiveMedia {
  const stream = {
    async transform(message: Uint8Array) {
      try {
        readJpegHeader(message);
        return message;
      } catch (error) {
        if (error instanceof LiveVideoError) throw new BadMessageError(error.message, { cause: error });
        throw error;
      }
    },
    close: async () => {},
  };
  return withFormat(stream, sidecar, note);
}

/** Adds what the client is told. */
function withFormat<Own extends object>(own: Own, sidecar: LiveSidecar, note: string | undefined) {
  const pictures = { ...RECOMMENDED, ...sidecar.info?.pictures?.recommended };
  const format: LiveFormat = {
    kind: 'picture',
    ...pictures,
    maxSide: PICTURE_LIMITS.side,
    maxPixels: PICTURE_LIMITS.pixels,
  };
  const told = {
    firstFrame: JSON.stringify({ ...pictures, ...(note ? { note } : {}) }),
    format,
    maxMessageBytes: PICTURE_LIMITS.bytes,
  };
  // `own` has getters.
  return Object.assign(own, told);
}
