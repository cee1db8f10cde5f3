import { CAPABILITIES } from '#common/capabilities.ts';
import type { ObjectStore } from '#common/objects/store.ts';
import type { RenderJob } from '#crds/gen/renderjobs.ts';
import type { Sink, Source } from '#proto/semblance/agent/v1/agent.ts';

const IMAGES = { 'image/jpeg': 'jpg', 'image/png': 'png', 'image/webp': 'webp' };
const VIDEOS = { 'video/mp4': 'mp4', 'video/webm': 'webm' };

/** Content types an output may have, with the ending of its key. */
const FORMATS: Readonly<Record<RenderJob['spec']['capability'], Readonly<Record<string, string>>>> = {
  'face-swap-image': IMAGES,
  'face-swap': VIDEOS,
  'character-swap': VIDEOS,
  'motion-control': VIDEOS,
  avatar: VIDEOS,
  'lip-sync': VIDEOS,
};

const MIB = 1024 * 1024;
/** What uploads allow, by kind; an output may be larger than what it was made of. */
const MAX_INPUT_BYTES = { image: 45 * MIB, audio: 500 * MIB, video: 500 * MIB };
const MAX_OUTPUT_BYTES = { image: 256 * MIB, second: 2_048 * MIB };

/** How long links outlive the time an attempt may take. */
const LINK_SLACK_SECONDS = 600;

/** Beginning of every key of an attempt's output. */
export function outputPrefix(uid: string, attempt: number): string {
  return `out/${uid}/${attempt}.`;
}

/** Every key an attempt may have stored under. */
export function outputKeys(job: RenderJob, attempt: number): string[] {
  const endings = Object.values(FORMATS[job.spec.capability]);
  return endings.map((ending) => outputPrefix(job.metadata.uid ?? '', attempt) + ending);
}

/** Links for one attempt: inputs to read, and one place to store for each content type. Never stored anywhere. */
export async function signLinks(
  objects: ObjectStore,
  job: RenderJob,
  attempt: number,
): Promise<{ inputs: Record<string, Source>; sinks: Sink[] }> {
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
      return [name, { url: await objects.signGet(key, options), maxBytes: BigInt(maxBytes) }];
    }),
  );
  const sinks = await Promise.all(
    Object.entries(FORMATS[capability]).map(async ([contentType, ending]): Promise<Sink> => {
      const key = outputPrefix(job.metadata.uid ?? '', attempt) + ending;
      const maxBytes = MAX_OUTPUT_BYTES[unit];
      const { url, headers } = await objects.signPut(key, { ...options, contentType, maxBytes });
      return { contentType, url, headers: { ...headers }, key };
    }),
  );
  return { inputs: Object.fromEntries(inputs), sinks };
}
