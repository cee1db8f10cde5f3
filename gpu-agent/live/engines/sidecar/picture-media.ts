import { RenderError } from '@semblance/engine-api/engine';
import {
  ChangeRefusedError,
  type LiveChange,
  type LiveFormat,
  type LiveMedia,
  type OpenLiveOptions,
} from '@semblance/engine-api/live-engine';
import type { Character } from '@semblance/engine-builtin/live-swap/characters';
import { type LiveLook, PICTURE_LIMITS, RECOMMENDED } from '@semblance/engine-builtin/live-swap/types';
import { LiveRefusal } from '@semblance/engine-sidecar/live/live-answers';
import type { LiveSidecar } from '@semblance/engine-sidecar/live/live-sidecar';
import type { SidecarSession } from '@semblance/engine-sidecar/live/open-session';
import { readyPictures } from '../../../assets/ready-inputs.ts';
import { keptFor, lookAskedFor, lookOf } from '../swap/live-swap-engine.ts';
import { createPictureFlow } from './picture-flow.ts';
import type { SidecarMedia } from './sidecar-engine.ts';
import { changedBy } from './sound-flow.ts';
import { createSwitchedPictures } from './switched-pictures.ts';

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
      const pictures = createSwitchedPictures();
      let session: SidecarSession | undefined;
      const begin = async ({ settings, inputs }: Work) => {
        const ready = await readyPictures(inputs);
        session = await sidecar.open({ settings, inputs: ready, signal: options.signal });
        pictures.through(createPictureFlow(session, options.onFailed));
        return session.note;
      };

      async function change(to: LiveChange) {
        const work = takesPrompt ? promptChangedTo(to) : faceChangedTo(to, characters);
        if (work === undefined) {
          pictures.pass();
          return {};
        }
        if (!session) return { note: (await begin(work).catch(refused)) || undefined };
        if (!session.change) throw new Error('the sidecar takes no changes');
        const inputs = await readyPictures(work.inputs).catch(refused);
        const changed = await changedBy(session.change)({ ...work, inputs });
        pictures.through();
        return changed;
      }

      let note = asked.note;
      try {
        if (!asked.own) note = (await begin(asked)) || note;
      } catch (error) {
        if (!(error instanceof LiveRefusal || error instanceof RenderError)) throw error;
        note = keptFor(error.message);
      }
      const can = sidecar.info?.takesChanges ? { change } : {};
      return withFormat(Object.assign(pictures, can), sidecar, note);
    },
  };
}

type Work = Pick<LiveChange, 'settings' | 'inputs'>;

function refused(error: unknown): never {
  if (error instanceof RenderError)
    throw new ChangeRefusedError('unsupported_format', error.message, { cause: error });
  if (!(error instanceof LiveRefusal)) throw error;
  throw new ChangeRefusedError('invalid_input', error.message, { cause: error });
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

/** @throws ChangeRefusedError */
function promptChangedTo({ settings: { prompt }, inputs, unusable }: LiveChange): Work {
  if (unusable?.face !== undefined) throw new ChangeRefusedError('unsupported_format', unusable.face);
  return { settings: prompt === undefined ? {} : { prompt }, inputs };
}

function askedByFace(
  { settings, inputs, unusable }: OpenLiveOptions,
  characters: ReadonlyMap<string, Character>,
): Asked {
  const { look, note } = lookOf(settings.prompt, inputs.face, unusable?.face, [...characters.keys()]);
  return withFaceOf(look, characters) ?? { own: true, note };
}

/** Returns undefined for the caller's own face. @throws ChangeRefusedError */
function faceChangedTo(to: LiveChange, characters: ReadonlyMap<string, Character>): Work | undefined {
  return withFaceOf(lookAskedFor(to, [...characters.keys()]), characters);
}

/** Returns what a sidecar gets for a face; undefined for the caller's own. */
function withFaceOf(look: LiveLook, characters: ReadonlyMap<string, Character>): Work | undefined {
  if (look.kind === 'face') return { settings: {}, inputs: { face: look.path } };
  const portrait = look.kind === 'character' ? characters.get(look.name)?.portrait : undefined;
  return portrait === undefined ? undefined : { settings: {}, inputs: { face: portrait } };
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
