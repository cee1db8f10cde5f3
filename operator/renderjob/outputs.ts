import { MAX_PREVIEW_BYTES, PREVIEW_TYPE, previewKey } from '@semblance/common/output-preview';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import type { ObjectStore } from '@semblance/objects/store';
import type { Sink, Source } from '@semblance/proto/semblance/agent/v1/agent';

const IMAGES = { 'image/jpeg': 'jpg', 'image/png': 'png', 'image/webp': 'webp' };
const VIDEOS = { 'video/mp4': 'mp4', 'video/webm': 'webm' };

/** Content types that an output may have, with the ending of its key. */
const FORMATS: Readonly<Record<RenderJob['spec']['capability'], Readonly<Record<string, string>>>> = {
  'face-swap-image': IMAGES,
  'face-swap': VIDEOS,
  'character-swap': VIDEOS,
  'motion-control': VIDEOS,
  avatar: VIDEOS,
  'lip-sync': VIDEOS,
};

const MIB = 1024 * 1024;
/** Limits of uploads in bytes, by kind. An output may be larger than its inputs. */
const MAX_INPUT_BYTES = { image: 45 * MIB, audio: 500 * MIB, video: 500 * MIB };
const MAX_OUTPUT_BYTES = { image: 256 * MIB, second: 2_048 * MIB };

/** Time by which links outlive the deadline of an attempt, in seconds. */
const LINK_SLACK_SECONDS = 600;

/** Returns every key under which an attempt may have stored something. */
export function outputKeys(job: RenderJob, attempt: number): string[] {
  const keys = Object.values(FORMATS[job.spec.capability]).map((ending) => keyOf(job, attempt, ending));
  return [...keys, ...new Set(keys.map(previewKey))];
}

/** Returns the one key for an output of this content type; undefined when the type is not allowed. */
export function outputKey(job: RenderJob, attempt: number, contentType: string): string | undefined {
  const formats = FORMATS[job.spec.capability];
  const ending = Object.hasOwn(formats, contentType) ? formats[contentType] : undefined;
  return ending && keyOf(job, attempt, ending);
}

function keyOf(job: RenderJob, attempt: number, ending: string): string {
  return `out/${job.metadata.uid ?? ''}/${attempt}.${ending}`;
}

/**
 * Returns the links of one attempt: inputs to read, and a place to store each content type. They are never stored.
 */
export async function signLinks(
  objects: ObjectStore,
  job: RenderJob,
  attempt: number,
): Promise<{ inputs: Record<string, Source>; sinks: Sink[]; previewSink: Sink }> {
  const { capability, activeDeadlineSeconds = 3_600 } = job.spec;
  const { inputs: roles, unit } = CAPABILITIES[capability];
  const options = {
    expiresInSeconds: activeDeadlineSeconds + LINK_SLACK_SECONDS,
    audience: 'internal' as const,
  };
  const kinds: Readonly<Record<string, { readonly kind: keyof typeof MAX_INPUT_BYTES } | undefined>> = roles;
  const inputs = await Promise.all(
    job.spec.inputs.map(async ({ name, key }): Promise<[string, Source]> => {
      const maxBytes = MAX_INPUT_BYTES[kinds[name]?.kind ?? 'video'];
      return [name, { url: await objects.signGet(key, options), maxBytes: BigInt(maxBytes), key }];
    }),
  );
  const sinks = await Promise.all(
    Object.entries(FORMATS[capability]).map(async ([contentType, ending]): Promise<Sink> => {
      const key = keyOf(job, attempt, ending);
      const maxBytes = MAX_OUTPUT_BYTES[unit];
      const { url, headers } = await objects.signPut(key, { ...options, contentType, maxBytes });
      return { contentType, url, headers: { ...headers }, key };
    }),
  );
  const key = previewKey(keyOf(job, attempt, ''));
  const place = { contentType: PREVIEW_TYPE, maxBytes: MAX_PREVIEW_BYTES };
  const { url, headers } = await objects.signPut(key, { ...options, ...place });
  const previewSink = { contentType: PREVIEW_TYPE, url, headers: { ...headers }, key };
  return { inputs: Object.fromEntries(inputs), sinks, previewSink };
}
