import { type Capability, inputsOf, rolesFault } from '@semblance/engine-api/capabilities';
import type { PreviewMoment } from '@semblance/engine-api/engine';
import type {
  FindPeopleRequest,
  InspectRequest,
  PreviewRequest,
} from '@semblance/proto/semblance/agent/v1/inspection';
import type { InputLink } from '../assets/fetch-inputs.ts';
import { checkCapability, checkParameters, checkUrl, fail } from '../attempts/start-request.ts';

/** A checked request. */
export interface Inspection {
  readonly id: string;
  readonly capability: Capability;
  readonly parameters: Readonly<Record<string, string>>;
  readonly inputs: readonly InputLink[];
  /** The people of the one input are wanted. */
  readonly people?: true;
  /** A preview is wanted. */
  readonly preview?: PreviewMoment;
}

/** Largest picture that is fetched, in bytes: the size of the largest upload of a picture. */
const MAX_PICTURE_BYTES = 45 * 1024 * 1024;
/** Such names are safe as names of folders. */
const ID = /^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/;

/** @throws MalformedRequestError saying what is wrong; it does not quote links */
export function parseInspect(request: InspectRequest): Inspection {
  const { inspectionId, capability, parameters } = request;
  if (!ID.test(inspectionId)) fail('inspection_id must be letters, digits and -');
  checkCapability(capability);
  checkParameters(parameters);
  const roles = rolesFault(capability, Object.keys(request.inputs), 'image');
  if (roles !== undefined) fail(`the pictures of ${capability} are ${roles}`);
  const inputs = Object.entries(request.inputs).map(([role, { url, maxBytes, key }]) => {
    checkUrl(`inputs.${role}`, url);
    if (maxBytes < 0n) fail(`inputs.${role}.max_bytes is negative`);
    const limit = maxBytes === 0n ? MAX_PICTURE_BYTES : Math.min(Number(maxBytes), MAX_PICTURE_BYTES);
    return { role, url, maxBytes: limit, key: key?.slice(0, 512) };
  });
  return { id: inspectionId, capability, parameters, inputs };
}

/** Largest video in which people are searched, in bytes: the size of the largest upload of a video. */
const MAX_VIDEO_BYTES = 512 * 1024 * 1024;

/** Returns a search for people as an inspection of the capability that changes such files. @throws MalformedRequestError */
export function parseFindPeople({ searchId, kind, file }: FindPeopleRequest): Inspection {
  if (!ID.test(searchId)) fail('search_id must be letters, digits and -');
  if (kind !== 'image' && kind !== 'video') fail('kind must be image or video');
  const { url = '', maxBytes = 0n, key } = file ?? {};
  checkUrl('file', url);
  const most = kind === 'image' ? MAX_PICTURE_BYTES : MAX_VIDEO_BYTES;
  const limit = maxBytes > 0n ? Math.min(Number(maxBytes), most) : most;
  return {
    id: searchId,
    capability: kind === 'image' ? 'face-swap-image' : 'face-swap',
    parameters: {},
    inputs: [{ role: kind, url, maxBytes: limit, key: key?.slice(0, 512) }],
    people: true,
  };
}

/** Longest time into a video, in microseconds: a day. */
const MOST_US = 86_400_000_000;

/** @throws MalformedRequestError saying what is wrong; it does not quote links */
export function parsePreview(request: PreviewRequest): Inspection {
  const { previewId, capability, parameters, atUs } = request;
  if (!ID.test(previewId)) fail('preview_id must be letters, digits and -');
  checkCapability(capability);
  checkParameters(parameters);
  if (atUs < 0n || atUs > MOST_US) fail('at_us must be within a day');
  const roles = rolesFault(capability, Object.keys(request.inputs));
  if (roles !== undefined) fail(`the inputs of ${capability} are ${roles}`);
  const kinds = inputsOf(capability);
  const inputs = Object.entries(request.inputs).map(([role, { url, maxBytes, key }]) => {
    checkUrl(`inputs.${role}`, url);
    const most = kinds[role]?.kind === 'image' ? MAX_PICTURE_BYTES : MAX_VIDEO_BYTES;
    const limit = maxBytes > 0n ? Math.min(Number(maxBytes), most) : most;
    return { role, url, maxBytes: limit, key: key?.slice(0, 512) };
  });
  return { id: previewId, capability, parameters, inputs, preview: { atUs: Number(atUs) } };
}
