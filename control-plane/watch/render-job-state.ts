import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { JobProgress, JobQueue } from '@semblance/proto/semblance/control/v1/control';

/**
 * States what the operator's reasons mean to the owner of a job that waits; any other reason is of no interest to
 * them.
 */
const WAITING: Readonly<Record<string, string>> = {
  SlotsBusy: 'busy',
  MemoryBusy: 'busy',
  AccountShare: 'busy',
  PriorityClassUnknown: 'busy',
  NoAgents: 'no_agent',
  NoAgentForCapability: 'no_agent',
  SlotsTooFew: 'no_agent',
  AgentsNotReady: 'no_agent',
  AgentsDraining: 'no_agent',
  Interrupted: 'retrying',
  AgentLost: 'retrying',
  Suspended: 'suspended',
};

/** How far the present attempt is; undefined while there is none. */
export function progressOf({ status }: RenderJob): JobProgress | undefined {
  const { phase, attempt = 0, progress, etaSeconds } = status ?? {};
  if (attempt < 1 || phase === undefined || phase === 'Pending' || phase === 'Suspended') return undefined;
  const percent = Number.parseInt(progress ?? '0', 10);
  return { attempt, percent: Number.isFinite(percent) ? Math.min(100, Math.max(0, percent)) : 0, etaSeconds };
}

/** Returns where the job stands among those that wait; undefined when it does not, or nothing is known of it yet. */
export function queueOf({ status }: RenderJob): JobQueue | undefined {
  const { phase, queuePosition: position, queueLength = 0 } = status ?? {};
  if (phase !== 'Pending' && phase !== 'Suspended') return undefined;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const reason = WAITING[ready?.reason ?? ''] ?? '';
  if (position === undefined && reason === '') return undefined;
  return { position: position ?? 0, of: queueLength, reason };
}
