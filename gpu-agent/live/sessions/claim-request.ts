import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import type { ChangeSessionRequest, ClaimSlotRequest, Source } from '@semblance/proto/semblance/live/v1/live';
import {
  checkUrl,
  MAX_INPUT_BYTES,
  MalformedRequestError,
  PARAMETER,
  ROLE,
} from '../../attempts/start-request.ts';
import type { SessionClaim } from './session-table.ts';

/** A checked claim request. */
export interface SessionWork extends SessionClaim {
  readonly settings: Readonly<Record<string, string>>;
  readonly inputs: readonly { readonly role: string; readonly url: string; readonly maxBytes: number }[];
  readonly requestId: string;
}

const SESSION_ID = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const MAX_SETTINGS = 16;
const MAX_SETTING_LENGTH = 128 * 1024;
const MAX_INPUTS = 4;
/** Length of a SHA-256, in bytes. */
const DIGEST_BYTES = 32;

/** @throws MalformedRequestError */
export function parseSessionId(id: string): string {
  if (!SESSION_ID.test(id)) fail('session_id must be 1 to 63 lower case letters, digits and -');
  return id;
}

/** What a session is to be changed to. */
export type SessionChange = Pick<SessionWork, 'id' | 'settings' | 'inputs'>;

/** @throws MalformedRequestError */
export function parseChange({ sessionId, settings, inputs }: ChangeSessionRequest): SessionChange {
  return { id: parseSessionId(sessionId), settings: parseSettings(settings), inputs: parseInputs(inputs) };
}

/** @throws MalformedRequestError saying what is wrong; it does not quote links */
export function parseClaim(request: ClaimSlotRequest): SessionWork {
  const { capability } = request;
  if (!isCapability(capability) || CAPABILITIES[capability].shape !== 'session') {
    fail(`capability ${JSON.stringify(capability.slice(0, 64))} is not one of a session`);
  }
  if (request.ticketSha256.length !== DIGEST_BYTES) fail(`ticket_sha256 must have ${DIGEST_BYTES} bytes`);
  const seconds = (name: string, value: number, most: number) => {
    if (!Number.isInteger(value) || value < 1 || value > most) fail(`${name} must be 1 to ${most}`);
    return value * 1000;
  };
  return {
    id: parseSessionId(request.sessionId),
    capability: capability as LiveCapability,
    ticketSha256: request.ticketSha256,
    settings: parseSettings(request.settings),
    inputs: parseInputs(request.inputs),
    connectDeadlineMs: seconds('connect_deadline_seconds', request.connectDeadlineSeconds, 3_600),
    maxDurationMs: seconds('max_duration_seconds', request.maxDurationSeconds, 14_400),
    requestId: request.requestId.slice(0, 128),
  };
}

function parseSettings(settings: Readonly<Record<string, string>>): SessionWork['settings'] {
  if (Object.keys(settings).length > MAX_SETTINGS) fail(`at most ${MAX_SETTINGS} settings`);
  for (const [name, value] of Object.entries(settings)) {
    if (!PARAMETER.test(name))
      fail(`the name of a setting is malformed: ${JSON.stringify(name.slice(0, 64))}`);
    if (value.length > MAX_SETTING_LENGTH) fail(`setting ${name} is too long`);
  }
  return settings;
}

function parseInputs(inputs: Readonly<Record<string, Source>>): SessionWork['inputs'] {
  if (Object.keys(inputs).length > MAX_INPUTS) fail(`at most ${MAX_INPUTS} inputs`);
  return Object.entries(inputs).map(([role, { url, maxBytes }]) => {
    if (!ROLE.test(role)) fail('an input has a malformed role');
    checkUrl(`inputs.${role}`, url);
    if (maxBytes < 0n) fail(`inputs.${role}.max_bytes is negative`);
    const limited = maxBytes > 0n && maxBytes < BigInt(MAX_INPUT_BYTES);
    return { role, url, maxBytes: limited ? Number(maxBytes) : MAX_INPUT_BYTES };
  });
}

function fail(message: string): never {
  throw new MalformedRequestError(message);
}
