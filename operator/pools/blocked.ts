import type { Fault } from './pod.ts';
import { isReady, type PoolSnapshot } from './types.ts';

/** Returns why agents cannot be started, if they cannot. */
export function blockedBy({ pods, hold, pool, now }: PoolSnapshot): Fault | undefined {
  if (hold && now < hold.until) return hold;
  const warmUpMs = (pool.spec.warmUpSeconds ?? 600) * 1000;
  for (const pod of pods) {
    if (pod.terminating || pod.end || isReady(pod) || !pod.obstacle) continue;
    // A node may be on its way, which takes time.
    if (!pod.scheduled && now - pod.createdAt < warmUpMs) continue;
    return { reason: pod.obstacle.reason, message: `${pod.name}: ${pod.obstacle.message}` };
  }
  return undefined;
}
