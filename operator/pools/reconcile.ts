import { decide, settingsOf } from './scaling.ts';
import {
  type Action,
  isDraining,
  isReady,
  type Plan,
  type PoolPod,
  type PoolSnapshot,
  workOn,
} from './types.ts';

/** Most Pods claimed at once; the rest follows when these exist. */
const MAX_CLAIMS = 50;

/**
 * Returns what to do so that a pool meets its spec and its work. Pods that end or have ended count for nothing.
 * Claimed Pods count as present. Draining Pods count as taken room, not as agents.
 *
 * A changed template is rolled out within `maxSurge` and `maxUnavailable`. Old agents are drained as far as enough
 * others are ready, and never cut short before `drainSeconds`. New Pods are created as far as there is room.
 */
export function reconcile(snapshot: PoolSnapshot): Plan {
  const { pool, revision, pods, now, hold } = snapshot;
  const { maxSurge, maxUnavailable, warmUpMs, drainMs, autoscaling } = settingsOf(pool);
  const actions: Action[] = [];

  for (const pod of pods) {
    if (!pod.end || pod.terminating) continue;
    const { reason, message } = pod.end;
    actions.push({ type: 'remove', pod, reason: 'AgentEnded', note: `${reason}: ${message}`, fault: true });
  }
  const present = pods.filter(({ end, terminating }) => !end && !terminating);
  const draining = present.filter(isDraining);
  const staying = present.filter((pod) => !isDraining(pod));

  const { desired, needed, expendable } = decide(snapshot, staying, present);

  const overdue = staying.filter(({ unreadySince = now }) => now - unreadySince >= warmUpMs);
  for (const pod of overdue) {
    const why = pod.obstacle ? ` (${pod.obstacle.reason}: ${pod.obstacle.message})` : '';
    const note = `Not ready for ${Math.round(warmUpMs / 1000)} s${why}; it is removed.`;
    actions.push({ type: 'remove', pod, reason: 'WarmUpTimedOut', note, fault: true });
  }
  const kept = staying.filter((pod) => !overdue.includes(pod));
  const isNew = (pod: PoolPod) => pod.revision === revision;
  const fresh = kept.filter(isNew);
  const old = kept.filter((pod) => !isNew(pod));

  const claimed = (pool.status?.creating ?? []).filter(
    (name) => !snapshot.refused.has(name) && !pods.some((pod) => pod.name === name),
  );
  const claims = claimed.slice(0, Math.max(0, desired - fresh.length));

  // Draining agents are taken back before new ones are created.
  let missing = desired - fresh.length - claims.length;
  const back = draining
    .filter(isNew)
    .toSorted((a, b) => workOn(b) - workOn(a))
    .slice(0, Math.max(0, missing));
  for (const pod of back) actions.push({ type: 'undrain', pod });
  missing -= back.length;

  const leaving = draining.filter((pod) => !back.includes(pod));
  actions.push(...ended(leaving, now, drainMs));
  // A drain for a scale-down may take hours, so it takes no room of a replacement.
  const replaced = leaving.filter(({ agent }) => agent?.drained?.why === 'RollingUpdate');
  const room = desired + maxSurge - kept.length - claims.length - back.length - replaced.length;
  const held = hold !== undefined && now < hold.until;
  const create = held ? 0 : Math.max(0, Math.min(missing, room, MAX_CLAIMS - claims.length));

  const available = kept.filter(isReady).length + back.length;
  let spare = available - Math.max(0, desired - maxUnavailable);
  for (const pod of inOrderOfLeaving(old)) {
    if (isReady(pod)) {
      if (spare <= 0) continue;
      spare--;
    }
    actions.push(letGo(pod, 'RollingUpdate', 'Its template has changed.'));
  }

  const surplus = fresh.length - desired;
  // Beyond the maximum any may go, else only those without work.
  const forced = autoscaling ? Math.max(0, Math.min(surplus, fresh.length - autoscaling.max)) : surplus;
  let left = surplus;
  for (const [index, pod] of inOrderOfLeaving(fresh).entries()) {
    if (left <= 0) break;
    if (index >= forced && expendable && !expendable.has(pod.uid)) continue;
    actions.push(letGo(pod, 'ScaleDown', 'Fewer agents are wanted.'));
    left--;
  }
  return { desired, needed, create, claims, actions, present, kept: [...kept, ...back] };
}

/** Removes drained Pods that may go. */
function ended(draining: readonly PoolPod[], now: number, drainMs: number): Action[] {
  return draining.flatMap((pod): Action[] => {
    const work = workOn(pod);
    const common = { type: 'remove', pod, fault: false } as const;
    if (work === 0) return [{ ...common, reason: 'Drained', note: 'It has no work left.' }];
    if (now - (pod.agent?.drained?.since ?? now) < drainMs) return [];
    const note = `It still has work in ${work} of its slots after ${Math.round(drainMs / 1000)} s; this is done elsewhere or cut short.`;
    return [{ ...common, reason: 'DrainTimedOut', note }];
  });
}

/** Drains a registered agent, idle or not, because work may be on its way to it. Removes others. */
function letGo(pod: PoolPod, why: 'ScaleDown' | 'RollingUpdate', note: string): Action {
  if (pod.agent && (isReady(pod) || pod.agent.outOfService || workOn(pod) > 0))
    return { type: 'drain', pod, why };
  return { type: 'remove', pod, reason: why, note, fault: false };
}

/** Sorts Pods by who goes first: not ready, not scheduled, `delete-first`, least work, idle longest, newest. */
function inOrderOfLeaving(pods: readonly PoolPod[]): PoolPod[] {
  const idleSince = ({ agent }: PoolPod) => agent?.idleSince ?? Number.POSITIVE_INFINITY;
  return pods.toSorted(
    (a, b) =>
      Number(isReady(a)) - Number(isReady(b)) ||
      Number(a.scheduled) - Number(b.scheduled) ||
      Number(b.deleteFirst) - Number(a.deleteFirst) ||
      workOn(a) - workOn(b) ||
      (idleSince(a) < idleSince(b) ? -1 : idleSince(a) > idleSince(b) ? 1 : 0) ||
      b.createdAt - a.createdAt ||
      (a.name < b.name ? -1 : 1),
  );
}
