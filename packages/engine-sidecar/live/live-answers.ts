import type { LiveCapability } from '@semblance/engine-api/live-engine';
import {
  type GetInfoResponse,
  type OpenResponse,
  PictureTransport,
} from '@semblance/proto/semblance/engine/live/v1/live_engine';
import { checkName } from '../answers.ts';
import { broken, quoted } from '../contract-error.ts';

/** Largest note or refusal, in characters. */
const MAX_TEXT = 300;
const MAX_SLOTS = 1_024;
const MAX_IN_FLIGHT = 8;
/** Rates of sound that an engine may want or give, in Hz. Odd ones would need large filters. */
const RATES = { least: 8_000, most: 96_000, step: 25 } as const;
const MAX_FPS = 60;

/** How pictures travel: as JPEG in the messages, or as pixels in a file that both sides map. */
type PictureForm = 'jpeg' | 'shared-rgb';

const FORMS = {
  [PictureTransport.PICTURE_TRANSPORT_JPEG]: 'jpeg',
  [PictureTransport.PICTURE_TRANSPORT_SHARED_RGB]: 'shared-rgb',
} as const satisfies Partial<Record<PictureTransport, PictureForm>>;

export interface LivePictureInfo {
  /** The form that it prefers of those that can be given here. */
  readonly form: PictureForm;
  readonly inFlight: number;
  /** Pictures that it recommends; undefined: it does not say. */
  readonly recommended: { readonly width: number; readonly height: number; readonly fps: number } | undefined;
}

export interface LiveSidecarInfo {
  readonly name: string;
  readonly version: string;
  readonly capability: LiveCapability;
  readonly slots: number;
  readonly takesPrompt: boolean;
  /** Whether prompt, face or voice of a session may change. */
  readonly takesChanges: boolean;
  /** Set for pictures. */
  readonly pictures: LivePictureInfo | undefined;
}

interface PictureConditions {
  /** Largest picture that clients may send. */
  readonly most: { readonly side: number; readonly pixels: number };
  /** Whether both sides see a folder on a memory file system. */
  readonly sharesMemory: boolean;
}

/**
 * @param capability that the sidecar is to carry
 * @throws ContractError
 */
export function checkedLiveInfo(
  info: GetInfoResponse,
  capability: LiveCapability,
  conditions: PictureConditions,
): LiveSidecarInfo {
  checkName(info);
  const { name, version, slots, takesPrompt, takesChanges, pictures } = info;
  if (info.capability !== capability)
    broken(`it carries ${quoted(info.capability)}, and is to carry ${capability}`);
  if (slots < 1 || slots > MAX_SLOTS) broken(`it has ${slots} slots, not 1 to ${MAX_SLOTS}`);
  const isPictures = capability === 'full-live-swap';
  if (isPictures !== (pictures !== undefined))
    broken(isPictures ? 'it does not say how it takes pictures' : 'it takes pictures, and carries sound');
  const common = { name, version, capability, slots, takesPrompt, takesChanges };
  return { ...common, pictures: pictures && checkedPictures(pictures, conditions) };
}

function checkedPictures(
  said: NonNullable<GetInfoResponse['pictures']>,
  { most, sharesMemory }: PictureConditions,
): LivePictureInfo {
  const { transports, inFlight, width, height, fps } = said;
  const known: Readonly<Partial<Record<number, PictureForm>>> = FORMS;
  const forms = transports.flatMap((transport) => known[transport] ?? []);
  if (forms.length === 0) broken('it takes pictures in no known form');
  if (new Set(forms).size < forms.length) broken('it names a form of pictures twice');
  const form = forms.find((each) => each === 'jpeg' || sharesMemory);
  if (!form)
    broken('it takes pictures in shared memory alone, and its socket is not on a memory file system');
  if (inFlight < 1 || inFlight > MAX_IN_FLIGHT)
    broken(`it takes ${inFlight} pictures at once, not 1 to ${MAX_IN_FLIGHT}`);
  if (width === 0 && height === 0 && fps === 0) return { form, inFlight, recommended: undefined };
  const fits = width > 0 && height > 0 && Math.max(width, height) <= most.side;
  if (!fits || width * height > most.pixels) broken(`it recommends pictures of ${width} × ${height} pixels`);
  if (!(fps > 0 && fps <= MAX_FPS)) broken(`it recommends ${fps} pictures a second, not up to ${MAX_FPS}`);
  return { form, inFlight, recommended: { width, height, fps } };
}

/** How an engine has opened a session. */
export interface OpenedSession {
  /** For the client; empty: nothing needs a word. */
  readonly note: string;
  /** Rates of sound, in Hz. */
  readonly inputRate: number;
  readonly outputRate: number;
}

/** The engine can do nothing with the face, prompt or voice; its sentence is for the client. */
export class LiveRefusal extends Error {
  override readonly name = 'LiveRefusal';
  readonly code = 'refused';
  readonly retryable = false;
}

/**
 * @param sampleRate rate of the client's sound; 0 for pictures
 * @throws ContractError, LiveRefusal
 */
export function checkedOpening({ message }: OpenResponse, sampleRate: number): OpenedSession {
  if (!message) broken('it answered Open with an empty message');
  if (message.$case === 'refusal') {
    if (sampleRate > 0) broken('it refused a session of sound');
    throw new LiveRefusal(checkedText(message.value.message, 1));
  }
  const { note, inputRate, outputRate } = message.value;
  const rate = (said: number): number => {
    if (said === 0) return sampleRate;
    if (sampleRate === 0) broken('it named a rate of sound for pictures');
    if (said < RATES.least || said > RATES.most || said % RATES.step !== 0)
      broken(
        `its rate of sound is ${said} Hz, not ${RATES.least} to ${RATES.most} in steps of ${RATES.step}`,
      );
    return said;
  };
  return { note: checkedText(note, 0), inputRate: rate(inputRate), outputRate: rate(outputRate) };
}

/**
 * Returns the note of an answer to a change.
 * @throws ContractError, LiveRefusal
 */
export function checkedChange(answer: { readonly note: string } | { readonly message: string }): string {
  if ('message' in answer) throw new LiveRefusal(checkedText(answer.message, 1));
  return checkedText(answer.note, 0);
}

function checkedText(said: string, least: number): string {
  const text = said.trim();
  if (text.length < least || text.length > MAX_TEXT)
    broken(`a text for the client has ${least} to ${MAX_TEXT} characters`);
  return text;
}
