import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { JobProgress, JobQueue } from '@semblance/proto/semblance/control/v1/control';

/** The operator's reasons in the terms of the owner of a waiting job; other reasons are not shown. */
const WAITING: Readonly<Record<string, string>> = {
  SlotsBusy: 'busy',
  MemoryBusy: 'busy',
  CardsBusy: 'busy',
  AccountShare: 'busy',
  PriorityClassUnknown: 'busy',
  NoAgents: 'no_agent',
  NoAgentForCapability: 'no_agent',
  NoAgentWithVoice: 'no_agent',
  SlotsTooFew: 'no_agent',
  AgentsNotReady: 'no_agent',
  AgentsDraining: 'no_agent',
  Interrupted: 'retrying',
  AgentLost: 'retrying',
  Suspended: 'suspended',
};

/** Returns the progress of the present attempt; undefined without one. */
export function progressOf({ status }: RenderJob): JobProgress | undefined {
  const { phase, attempt = 0, progress, etaSeconds } = status ?? {};
  if (attempt < 1 || phase === undefined || phase === 'Pending' || phase === 'Suspended') return undefined;
  const percent = Number.parseInt(progress ?? '0', 10);
  return { attempt, percent: Number.isFinite(percent) ? Math.min(100, Math.max(0, percent)) : 0, etaSeconds };
}

/** Returns the job's place among the waiting ones; undefined when it does not wait or its place is unknown. */
export function queueOf({ status }: RenderJob): JobQueue | undefined {
  const { phase, queuePosition: position, queueLength = 0 } = status ?? {};
  if (phase !== 'Pending' && phase !== 'Suspended') return undefined;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const reason = WAITING[ready?.reason ?? ''] ?? '';
  if (position === undefined && reason === '') return undefined;
  return { position: position ?? 0, of: queueLength, reason };
}
