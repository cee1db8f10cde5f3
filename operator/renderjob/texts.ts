import { type ServiceError, status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { withTexts } from '@semblance/common/job-texts';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { ControlServiceClient } from '@semblance/proto/semblance/control/v1/control';

const TIMEOUT_MS = 5_000;

/** Turns the parameters of RenderJobs into those that an agent gets. */
export interface Texts {
  /** @throws TextMissingError when a text is not to be had; another error when the control plane cannot be asked */
  parametersOf(job: RenderJob, signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
  close(): void;
}

/** @param options.address host:port of the control plane; undefined: texts of RenderJobs are in clear only */
export function createTexts(options: {
  readonly address?: string | undefined;
  readonly token?: string | undefined;
  readonly tls?: Tls | undefined;
}): Texts {
  const { address, token, tls } = options;
  const client =
    address === undefined
      ? undefined
      : createClient(ControlServiceClient, address, token, tls?.to('control-plane'));

  async function read(jobId: string, signal: AbortSignal): Promise<Record<string, string>> {
    if (!client)
      throw new Error('SEMBLANCE_CONTROL_ADDRESS is not set, so the text of the job cannot be read');
    try {
      const settings = { timeoutMs: TIMEOUT_MS, signal };
      return (await call(client.readJobTexts.bind(client), { jobId }, settings)).texts;
    } catch (error) {
      if ((error as ServiceError).code === status.NOT_FOUND) return {};
      throw error;
    }
  }

  return {
    parametersOf(job, signal) {
      const { name = '' } = job.metadata;
      return withTexts(name, job.spec.parameters ?? {}, () => read(name, signal));
    },
    close: () => client?.close(),
  };
}
