import type { RenderJob } from '@semblance/crds/gen/renderjobs';

/** How a job went, as its RenderJob says; kept as long as the job. */
export interface JobHistory {
  /** Why it ended so, or what it waits for, for the service owner. */
  readonly reason: string | null;
  readonly message: string | null;
  /** The last ones, in their order; the last may be under way. */
  readonly attempts: readonly JobAttempt[];
  /** Number of all attempts. */
  readonly attempted: number;
  readonly stages: readonly {
    readonly name: string;
    readonly milliseconds: number;
    readonly engine?: string;
  }[];
}

export interface JobAttempt {
  readonly number: number;
  readonly agent: string;
  /** ISO 8601; null: it never began. */
  readonly started_at: string | null;
  /** ISO 8601; null: it is under way. */
  readonly ended_at: string | null;
  /** Why it ended; null: it is under way. */
  readonly reason: string | null;
  readonly message: string | null;
}

/** Returns what a RenderJob says about its course, in text that the database can keep. */
export function historyOf({ status }: Pick<RenderJob, 'status'>): JobHistory {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const ended = (status?.attempts ?? []).map(
    ({ number, agent, startTime, endTime, reason, message }): JobAttempt => ({
      number,
      agent,
      started_at: startTime ?? null,
      ended_at: endTime,
      reason,
      message: tellable(message),
    }),
  );
  const { attempt = 0, agent, startTime } = status ?? {};
  const bound = ['Assigned', 'Running', 'Stopping'].includes(status?.phase ?? '');
  const present: JobAttempt[] =
    bound && agent !== undefined
      ? [
          {
            ...{ number: attempt, agent, started_at: startTime ?? null },
            ...{ ended_at: null, reason: null, message: null },
          },
        ]
      : [];
  return {
    reason: ready?.reason ?? null,
    message: ready ? tellable(ready.message) : null,
    attempts: [...ended, ...present],
    attempted: attempt,
    stages: (status?.output?.stages ?? []).map(({ name, milliseconds, engine }) => ({
      name: storable(name),
      milliseconds,
      ...(engine === undefined ? {} : { engine: storable(engine) }),
    })),
  };
}

/** Returns a message as it is kept: without signed links, which are for agents. */
export function tellable(text: string): string {
  return storable(text).replace(/(https?:\/\/[^\s?]+)\?\S*/g, '$1?…');
}

/** Returns text without what PostgreSQL cannot keep. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed();
}
