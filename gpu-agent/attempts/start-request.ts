import { CAPABILITIES, type Capability, isCapability, rolesFault } from '@semblance/engine-api/capabilities';
import { MAX_GIVEN_OPTIONS, MAX_OPTION_TEXT, OPTION_NAME } from '@semblance/engine-api/option';
import type { StartAttemptRequest } from '@semblance/proto/semblance/agent/v1/agent';
import type { InputLink } from '../assets/fetch-inputs.ts';
import type { Sink } from '../assets/store-output.ts';
import { checkedUrl } from '../assets/transfer.ts';
import type { AttemptRef } from './attempt-table.ts';

/** A checked start request. */
export interface AttemptWork {
  readonly ref: AttemptRef;
  readonly jobName: string;
  readonly capability: Capability;
  readonly parameters: Readonly<Record<string, string>>;
  /** Options of the engine that the caller gave, as text. */
  readonly engineOptions: Readonly<Record<string, string>>;
  readonly inputs: readonly InputLink[];
  readonly sinks: readonly Sink[];
  /** Time limit in ms; undefined for none. */
  /** Place for a small picture of the output; undefined: none is wanted. */
  readonly previewSink?: Sink | undefined;
  readonly deadlineMs: number | undefined;
  readonly requestId: string;
  /** W3C trace context of the caller. */
  readonly traceparent?: string | undefined;
}

/** Largest input that the agent fetches, in bytes, whatever the request says: the size of the largest upload. */
export const MAX_INPUT_BYTES = 500 * 1024 * 1024;
const MAX_PARAMETERS = 16;
const MAX_PARAMETER_LENGTH = 40_000;
const UID = /^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/;
/** Names of input roles, as in the resource definitions. */
export const ROLE = /^[a-z][a-z0-9_]{0,31}$/;
/** Names of job parameters and session settings, as in the resource definitions. */
export const PARAMETER = /^[a-z][a-z0-9_]{0,63}$/;
const HEADER_NAME = /^[A-Za-z0-9-]{1,128}$/;
/** Printable ASCII: such a value cannot end its header early. */
const HEADER_VALUE = /^[\x20-\x7e]{0,4096}$/;
const CONTENT_TYPE = /^[a-z]+\/[a-z0-9.+-]{1,100}$/;

export class MalformedRequestError extends Error {
  override readonly name = 'MalformedRequestError';
  readonly code = 'malformed_request';
  readonly retryable = false;
}

/** @throws MalformedRequestError */
export function parseRef(ref: { jobUid: string; attempt: number } | undefined): AttemptRef {
  if (!ref) fail('ref is missing');
  if (!UID.test(ref.jobUid)) fail('ref.job_uid must be a uid of letters, digits and -');
  if (ref.attempt < 1) fail('ref.attempt must be at least 1');
  return { jobUid: ref.jobUid, attempt: ref.attempt };
}

/** @throws MalformedRequestError saying what is wrong; it does not quote links */
export function parseStart(request: StartAttemptRequest): AttemptWork {
  const ref = parseRef(request.ref);
  const { capability, parameters, engineOptions } = request;
  checkCapability(capability);
  checkParameters(parameters);
  checkEngineOptions(engineOptions);
  const roles = rolesFault(capability, Object.keys(request.inputs));
  if (roles !== undefined) fail(`${capability} takes exactly the inputs ${roles}`);
  const inputs = Object.entries(request.inputs).map(([role, { url, maxBytes, key }]) => {
    checkUrl(`inputs.${role}`, url);
    if (maxBytes < 0n) fail(`inputs.${role}.max_bytes is negative`);
    const limit = maxBytes === 0n || maxBytes > BigInt(MAX_INPUT_BYTES) ? MAX_INPUT_BYTES : Number(maxBytes);
    return { role, url, maxBytes: limit, key: key?.slice(0, 512) };
  });
  if (request.sinks.length === 0 || request.sinks.length > 16) fail('1 to 16 sinks are needed');
  const sinks = request.sinks.map((sink, index) => checkedSink(`sinks[${index}]`, sink));
  if (request.deadlineSeconds < 0 || request.deadlineSeconds > 7 * 86_400) {
    fail('deadline_seconds must be 0 to 604800');
  }
  return {
    ref,
    jobName: request.jobName.slice(0, 253),
    capability,
    parameters,
    engineOptions,
    inputs,
    sinks,
    previewSink: request.previewSink && checkedSink('preview_sink', request.previewSink),
    deadlineMs: request.deadlineSeconds > 0 ? request.deadlineSeconds * 1000 : undefined,
    requestId: request.requestId.slice(0, 128),
  };
}

/** @throws MalformedRequestError saying what is wrong with the field; it does not quote links */
function checkedSink(field: string, { contentType, url, headers, key }: Sink): Sink {
  checkUrl(field, url);
  if (!CONTENT_TYPE.test(contentType)) fail(`${field}.content_type is malformed`);
  if (key === '' || key.length > 512) fail(`${field}.key must have 1 to 512 characters`);
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value)) fail(`${field} has a malformed header`);
    // The agent itself decides the length and the transfer of the body.
    if (/^(content-length|transfer-encoding|connection|host|expect)$/i.test(name))
      fail(`${field} sets the header ${name}`);
  }
  return { contentType, url, headers, key };
}

/** @throws MalformedRequestError */
export function checkCapability(capability: string): asserts capability is Capability {
  if (!isCapability(capability) || CAPABILITIES[capability].shape !== 'job') {
    fail(`capability ${JSON.stringify(capability.slice(0, 64))} is not one of a job`);
  }
}

/** @throws MalformedRequestError */
export function checkParameters(parameters: Readonly<Record<string, string>>): void {
  if (Object.keys(parameters).length > MAX_PARAMETERS) fail(`at most ${MAX_PARAMETERS} parameters`);
  for (const [name, value] of Object.entries(parameters)) {
    if (!PARAMETER.test(name))
      fail(`the name of a parameter is malformed: ${JSON.stringify(name.slice(0, 64))}`);
    if (value.length > MAX_PARAMETER_LENGTH) fail(`parameter ${name} is too long`);
  }
}

/** Checks the form; the values are checked against the engine. @throws MalformedRequestError */
function checkEngineOptions(options: Readonly<Record<string, string>>): void {
  if (Object.keys(options).length > MAX_GIVEN_OPTIONS) fail(`at most ${MAX_GIVEN_OPTIONS} engine options`);
  for (const [name, value] of Object.entries(options)) {
    if (!OPTION_NAME.test(name))
      fail(`the name of an engine option is malformed: ${JSON.stringify(name.slice(0, 64))}`);
    if (value.length > MAX_OPTION_TEXT) fail(`engine option ${name} is too long`);
  }
}

/** @throws MalformedRequestError saying what is wrong; it does not quote the link */
export function checkUrl(field: string, url: string): void {
  if (url.length > 8_192) fail(`${field}.url is too long`);
  try {
    checkedUrl(url);
  } catch (error) {
    fail(`${field}: ${(error as Error).message}`);
  }
}

export function fail(message: string): never {
  throw new MalformedRequestError(message);
}
