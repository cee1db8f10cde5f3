import { pause } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import {
  createReflector,
  isKubeError,
  type KubeClient,
  type KubeObject,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Registry } from 'prom-client';

/** A PriorityClass of scheduling.k8s.io/v1, cluster-scoped. */
export interface PriorityClass extends KubeObject {
  readonly value: number;
}

export const PRIORITYCLASS_RESOURCE: ResourceDescriptor<PriorityClass> = {
  group: 'scheduling.k8s.io',
  version: 'v1',
  plural: 'priorityclasses',
  kind: 'PriorityClass',
};

/** A job's priority. */
export interface JobPriority {
  readonly priority: number;
  /** Its PriorityClass, if RBAC denies reading them: it counts as priority 0. */
  readonly unknownClass?: string;
  /** Its PriorityClass, if there is none of this name: the job is held back until there is. */
  readonly missingClass?: string;
}

export type PriorityOf = (job: RenderJob) => JobPriority;

/** Interval between retries when RBAC denies PriorityClasses, in ms. */
const FORBIDDEN_MS = 60_000;

export interface PriorityClassesOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly onChanged: () => void;
}

/** The cluster's PriorityClasses; none is known if RBAC denies reading them. */
export interface PriorityClasses {
  run(signal: AbortSignal): Promise<void>;
  readonly priorityOf: PriorityOf;
}

export function createPriorityClasses(options: PriorityClassesOptions): PriorityClasses {
  const { client, logger, registry, onChanged } = options;
  const classes = createReflector<PriorityClass>({
    client,
    logger,
    registry,
    resource: PRIORITYCLASS_RESOURCE,
    handlers: { onAdd: onChanged, onUpdate: onChanged, onDelete: onChanged },
  });
  let denied = false;
  function setDenied(now: boolean): void {
    if (denied === now) return;
    denied = now;
    onChanged();
  }
  return {
    async run(signal) {
      while (!signal.aborted) {
        try {
          await client.list(PRIORITYCLASS_RESOURCE, { signal });
          setDenied(false);
          await classes.run(signal);
        } catch (error) {
          if (signal.aborted) return;
          const forbidden = isKubeError(error, 'forbidden');
          const reason = describeError(error);
          if (forbidden) {
            setDenied(true);
            const why = 'PriorityClasses cannot be read: jobs that name one have priority 0 and say so';
            logger.warn({ reason }, why);
          } else logger.debug({ reason }, 'cannot read PriorityClasses yet');
          await pause(forbidden ? FORBIDDEN_MS : 1_000, signal);
        }
      }
    },
    priorityOf({ spec: { priority = 0, priorityClassName } }) {
      if (!priorityClassName) return { priority };
      const value = classes.get(priorityClassName)?.value;
      if (value !== undefined) return { priority: value };
      return denied
        ? { priority: 0, unknownClass: priorityClassName }
        : { priority: 0, missingClass: priorityClassName };
    },
  };
}
