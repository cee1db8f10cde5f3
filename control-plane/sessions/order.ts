import { createHash, randomBytes } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import { newSecret } from '@semblance/common/ids';
import { readPrompt } from '@semblance/common/live-prompt';
import { microsToUsd } from '@semblance/common/money';
import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import { capRefusal } from '../billing/caps.ts';
import { isStorable } from '../storage/sql.ts';
import type { VoiceCatalogue } from '../voices/catalogue.ts';
import { findVoice } from '../voices/find-voice.ts';
import { newSessionId } from './session-id.ts';

/** A requested session. */
export interface SessionWish {
  readonly accountId: string;
  /** The API key that opens it, whose cap counts. */
  readonly keyId?: string | undefined;
  /** `voice` or `full-live-swap`. */
  readonly capability: string;
  readonly durationMinutes: number;
  /** Live Swap Pro, with the default filled in. */
  readonly prompt: string;
  /** Voice Swap; undefined: sound passes unchanged. */
  readonly voiceId: string | undefined;
}

/** A requested session, checked as far as possible before the transaction that decides. */
export interface SessionOrder {
  readonly sessionId: string;
  readonly wish: SessionWish;
  /** For the client only. */
  readonly token: string;
  /** For the relay between gateway and agent. */
  readonly ticket: Buffer;
  /** For the agent. */
  readonly settings: Readonly<Record<string, string>>;
  readonly inputs: readonly { readonly role: string; readonly key: string; readonly kind: string }[];
}

const MAX_MINUTES: Readonly<Record<string, number>> = { voice: 120, 'full-live-swap': 240 };
const MAX_PROMPT = 2_000;
const TICKET_BYTES = 32;

export function sha256(of: string | Buffer): Buffer {
  return createHash('sha256').update(of).digest();
}

/**
 * An input that no upload matches, so that the transaction refuses a session with an unknown voice in the words of
 * the API.
 */
const NO_VOICE = { role: 'voice', key: '', kind: 'voice' };

/** @throws ApiError invalid_input for a faulty field */
export async function orderOf(voices: VoiceCatalogue, wish: SessionWish): Promise<SessionOrder> {
  const { capability, durationMinutes: minutes, prompt, voiceId } = wish;
  const most = MAX_MINUTES[capability];
  if (!Object.hasOwn(MAX_MINUTES, capability) || most === undefined)
    throw new ApiError('invalid_input', 'There is no such session capability.');
  if (!Number.isInteger(minutes) || minutes < 1 || minutes > most)
    throw new ApiError('invalid_input', `\`duration_minutes\` is a whole number from 1 to ${most}.`);
  const details = await detailsOf(voices, capability, { prompt, voiceId });
  const token = newSecret('sst_');
  return { sessionId: newSessionId(), wish, token, ticket: randomBytes(TICKET_BYTES), ...details };
}

/** What an agent needs to know of a session. */
export type SessionDetails = Pick<SessionOrder, 'settings' | 'inputs'>;

/** @throws ApiError invalid_input for a faulty prompt */
export async function detailsOf(
  voices: VoiceCatalogue,
  capability: string,
  { prompt, voiceId }: Pick<SessionWish, 'prompt' | 'voiceId'>,
): Promise<SessionDetails> {
  return capability === 'voice' ? voiceOf(voices, voiceId) : lookOf(prompt);
}

async function voiceOf(voices: VoiceCatalogue, id: string | undefined): Promise<SessionDetails> {
  if (id === undefined) return { settings: {}, inputs: [] };
  const voice = await findVoice(voices, id);
  return voice
    ? { settings: { voice: JSON.stringify(voice) }, inputs: [] }
    : { settings: {}, inputs: [NO_VOICE] };
}

function lookOf(prompt: string): SessionDetails {
  if ((prompt.length > MAX_PROMPT && [...prompt].length > MAX_PROMPT) || !isStorable(prompt))
    throw new ApiError('invalid_input', `\`prompt\` is text of at most ${MAX_PROMPT} characters.`);
  const look = readPrompt(prompt);
  const inputs = look.kind === 'upload' ? [{ role: 'face', key: look.fileKey, kind: 'image' }] : [];
  return { settings: { prompt }, inputs };
}

function pause(seconds: number): ApiError {
  return new ApiError(
    'at_capacity',
    `The last live sessions of this account were opened and had no stream. Open the next one in ${seconds} s, and connect to it.`,
    { retryAfterSeconds: seconds },
  );
}

/** Result of an order in its transaction. */
export interface OpenOutcome {
  readonly outcome: string;
  readonly detail: string | null;
  readonly max_seconds: number | null;
  readonly max_cost_micros: bigint | null;
  readonly connect_seconds: number | null;
}

/** Returns what is wrong with an input of a session. */
export function inputFault(outcome: 'unknown_input' | 'wrong_kind', role: string | null): ApiError {
  if (role === NO_VOICE.role)
    return new ApiError('invalid_input', '`voice_profile_id` is not a voice: take an `id` from GET /voices.');
  const fault =
    outcome === 'wrong_kind' ? 'a file that is not an image' : 'a file key that is no upload of yours';
  return new ApiError('invalid_input', `\`prompt\` names ${fault}.`);
}

/** Returns why a session is not opened. */
export function refusal({ outcome, detail, max_cost_micros: cost }: OpenOutcome, capability: string): Error {
  const title = isCapability(capability) ? CAPABILITIES[capability].title : capability;
  switch (outcome) {
    case 'capability_unavailable':
      return new ApiError('capability_unavailable', `${title} is switched off at present.`);
    case 'unknown_input':
    case 'wrong_kind':
      return inputFault(outcome, detail);
    case 'account_full':
      return new ApiError(
        'at_capacity',
        `This account may have ${detail} live sessions at once. Retry when one has ended.`,
      );
    case 'platform_full':
      return detail === null
        ? new ApiError('at_capacity', 'The platform is busy at present. Retry shortly.')
        : pause(Number(detail.split(' ')[1]));
    case 'capped':
      return capRefusal(detail, 'The shortest session needs a block', cost ?? 0n);
    case 'insufficient_balance':
      return new ApiError(
        'insufficient_balance',
        `The shortest session needs ${microsToUsd(cost ?? 0n)} USD; ${microsToUsd(BigInt(detail ?? 0))} USD are available (available_usd of GET /balance).`,
      );
    default:
      return new Error(`unknown outcome of a session's opening: ${outcome}`);
  }
}
