import { newId } from '#common/ids.ts';
import type { Api } from './api.ts';
import { eventually } from './eventually.ts';
import type { Kubectl, RenderJobView } from './kubectl.ts';
import { ADMIRAL, ASTRONAUT } from './media.ts';

/** Inputs of a RenderJob made by hand: uploads of whatever account. */
export async function swapInputs(api: Api, image = ASTRONAUT, face = ADMIRAL) {
  const [imageKey, faceKey] = await Promise.all([api.upload(image), api.upload(face)]);
  return [
    { name: 'image', key: imageKey },
    { name: 'face', key: faceKey },
  ];
}

export type SwapInputs = Awaited<ReturnType<typeof swapInputs>>;

/**
 * A RenderJob as a person would write it: no account, so nobody is billed. Names sort by time, as the ids of API jobs do:
 * those made within one second, which is as fine as Kubernetes tells creation, are served in the order of their names.
 */
export function renderJob(inputs: SwapInputs, spec: Record<string, unknown> = {}) {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: { name: newId('by-hand-') },
    spec: { capability: 'face-swap-image', inputs, ...spec },
  };
}

/** Waits until the RenderJob has that phase; throws at once when it ended in another way. */
export async function untilPhase(
  kubectl: Kubectl,
  name: string,
  phase: string,
  withinMs = 60_000,
): Promise<RenderJobView> {
  const job = await eventually(
    `${name} to be ${phase}`,
    async () => {
      const seen = await kubectl.renderJob(name);
      if (!seen) throw new Error('there is none');
      const now = seen.status?.phase;
      return now === phase || now === 'Succeeded' || now === 'Failed' ? seen : undefined;
    },
    { withinMs, everyMs: 150 },
  );
  if (job.status?.phase !== phase) {
    throw new Error(`${name} became ${job.status?.phase}, not ${phase}: ${JSON.stringify(job.status)}`);
  }
  return job;
}
