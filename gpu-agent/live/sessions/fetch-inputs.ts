import { join } from 'node:path';
import type { Logger } from '@semblance/common/logging';
import type { Dispatcher } from 'undici';
import { fetchInput } from '../../assets/fetch-input.ts';
import type { TransferLimits } from '../../assets/transfer.ts';
import type { WorkDir } from '../../assets/work-dir.ts';
import type { AgentMetrics } from '../../metrics.ts';
import type { SessionWork } from './claim-request.ts';

/** Fetches the inputs of each session into its own folder. */
export function inputFetcher(options: {
  readonly workDir: Pick<WorkDir, 'attempt'>;
  readonly dispatcher: Dispatcher;
  readonly transferLimits: TransferLimits;
  readonly metrics: Pick<AgentMetrics, 'fetchedBytes' | 'transferRetries'>;
}) {
  const { metrics } = options;
  return async (work: SessionWork, signal: AbortSignal, logger: Logger) => {
    const dir = await options.workDir.attempt(`live-${work.id}`);
    try {
      const fetched = await Promise.all(
        work.inputs.map(async ({ role, url, maxBytes }) => {
          const path = join(dir.inputs, role);
          await fetchInput({
            url,
            path,
            maxBytes,
            what: `input ${role}`,
            dispatcher: options.dispatcher,
            signal,
            logger,
            limits: options.transferLimits,
            onBytes: (count) => metrics.fetchedBytes.inc(count),
            onRetry: () => metrics.transferRetries.inc({ direction: 'fetch' }),
          });
          return [role, path] as const;
        }),
      );
      return { paths: Object.fromEntries(fetched), remove: () => dir.remove() };
    } catch (error) {
      await dir.remove();
      throw error;
    }
  };
}
