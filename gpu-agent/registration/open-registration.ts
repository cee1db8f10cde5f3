import { createKubeClient, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { AgentSettings } from '../settings.ts';
import {
  createRegistration,
  FIELD_MANAGER,
  type LeaseTimes,
  type Registration,
  type RegistrationOptions,
} from './registration.ts';

export interface OpenRegistrationOptions
  extends Pick<
    RegistrationOptions,
    'incarnation' | 'certificate' | 'registry' | 'statement' | 'onFenced' | 'onRestored' | 'onDrain'
  > {
  readonly settings: AgentSettings;
  readonly leaseTimes?: LeaseTimes | undefined;
  readonly logger: Logger;
  /** Receives a function that ends each started part. */
  readonly started: (() => Promise<void>)[];
}

/** Creates the registration and its clients of the Kubernetes API. */
export function openRegistration(options: OpenRegistrationOptions): {
  readonly kube: KubeClient;
  readonly registration: Registration;
} {
  const { settings, leaseTimes = settings.leaseTimes, logger, started, ...given } = options;
  const { kubeconfig: kubeconfigPath, namespace, name, pod } = settings;
  const kubeOptions = { kubeconfigPath, fieldManager: FIELD_MANAGER };
  const kube = createKubeClient({ ...kubeOptions, requestTimeoutMs: 5_000, logger });
  started.push(() => kube.close());
  const leaseKube = createKubeClient({ ...kubeOptions, requestTimeoutMs: 2_000 });
  started.push(() => leaseKube.close());
  const registration = createRegistration({
    kube,
    leaseKube,
    namespace,
    name,
    ...(pod ? { pod } : {}),
    leaseTimes,
    logger,
    ...given,
  });
  return { kube, registration };
}

/** Keeps the agent registered until `leave`. `failed` rejects when another process takes its Lease. */
export function keepRegistered(registration: Registration): {
  readonly failed: Promise<never>;
  leave(): Promise<void>;
} {
  const leaving = new AbortController();
  const running = registration.run(leaving.signal);
  const failed = running.then(() => new Promise<never>(() => {}));
  failed.catch(() => {});
  return {
    failed,
    async leave() {
      leaving.abort(new Error('the agent is ending'));
      // A lost Lease is reported to the listener of `failed`, so the error is ignored here.
      await running.catch(() => {});
    },
  };
}
