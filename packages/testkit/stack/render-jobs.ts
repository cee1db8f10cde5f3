import { newId } from '@semblance/common/ids';
import type { Api } from './api.ts';
import { eventually } from './eventually.ts';
import type { Kubectl, RenderJobView } from './kubectl.ts';
import { ADMIRAL, ASTRONAUT } from './media.ts';

/** Uploads the inputs of a hand-written RenderJob, with any account. */
export async function swapInputs(api: Api, image = ASTRONAUT, face = ADMIRAL) {
  const [imageKey, faceKey] = await Promise.all([api.upload(image), api.upload(face)]);
  return [
    { name: 'image', key: imageKey },
    { name: 'face', key: faceKey },
  ];
}

export type SwapInputs = Awaited<ReturnType<typeof swapInputs>>;

/**
 * Returns a RenderJob as a person would write it: without an account, so nobody is billed. Names sort by time, like
 * the ids of API jobs. Jobs created within one second, the resolution of Kubernetes, are served in the order of
 * their names.
 */
export function renderJob(inputs: SwapInputs, spec: Record<string, unknown> = {}) {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: { name: newId('by-hand-') },
    spec: { capability: 'face-swap-image', inputs, ...spec },
  };
}

/** Waits until the RenderJob has that phase or has ended. */
export function untilPhaseOrEnd(
  kubectl: Kubectl,
  name: string,
  phase: string,
  withinMs = 100_000,
): Promise<RenderJobView> {
  return eventually(
    `${name} to be ${phase}`,
    async () => {
      const seen = await kubectl.renderJob(name);
      if (!seen) throw new Error('there is none');
      const now = seen.status?.phase;
      return now === phase || now === 'Succeeded' || now === 'Failed' ? seen : undefined;
    },
    { withinMs, everyMs: 50 },
  );
}

/**
 * Acts on a job while it runs. On a busy machine a job may end before the test learns that it runs; then another
 * job is created.
 *
 * @param begin creates a job and returns its name
 * @param act returns undefined when the job had ended before
 */
export async function whileRunning<T>(
  kubectl: Kubectl,
  begin: () => Promise<string>,
  act: (name: string) => Promise<T | undefined>,
): Promise<T> {
  for (let left = 5; left > 0; left--) {
    const name = await begin();
    const job = await untilPhaseOrEnd(kubectl, name, 'Running');
    const done = job.status?.phase === 'Running' ? await act(name) : undefined;
    if (done !== undefined) return done;
  }
  throw new Error('every job was over before anything could be done to it');
}

/** Waits until the RenderJob has that phase; throws when it ends otherwise. */
export async function untilPhase(
  kubectl: Kubectl,
  name: string,
  phase: string,
  withinMs?: number,
): Promise<RenderJobView> {
  const job = await untilPhaseOrEnd(kubectl, name, phase, withinMs);
  if (job.status?.phase !== phase) {
    throw new Error(`${name} became ${job.status?.phase}, not ${phase}: ${JSON.stringify(job.status)}`);
  }
  return job;
}
