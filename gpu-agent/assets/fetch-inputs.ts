import { join } from 'node:path';
import type { Logger } from '@semblance/common/logging';
import type { EngineCapability } from '@semblance/engine-api/engine';
import type { Dispatcher } from 'undici';
import type { AgentMetrics } from '../metrics.ts';
import { fetchInput } from './fetch-input.ts';
import type { TransferLimits } from './transfer.ts';

/** An input as a request names it. */
export interface InputLink {
  readonly role: string;
  readonly url: string;
  readonly maxBytes: number;
  /** Object key behind the link, for messages. */
  readonly key?: string | undefined;
}

export interface FetchInputsOptions {
  readonly inputs: readonly InputLink[];
  /** Existing folder; each file there is named after its role. */
  readonly dir: string;
  /** Capability of the engine, which may take less than the links allow. */
  readonly offer: Pick<EngineCapability, 'limits'>;
  readonly dispatcher: Dispatcher;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly limits?: TransferLimits;
  readonly metrics: Pick<AgentMetrics, 'fetchedBytes' | 'transferRetries'>;
}

/**
 * Fetches inputs at the same time. When it settles, nothing of it is under way.
 * @returns role → path, in the order of the request, in which checks and manifests name the inputs
 * @throws the first fault, or the signal's reason
 */
export async function fetchInputs(options: FetchInputsOptions): Promise<Record<string, string>> {
  const { inputs, dir, offer, metrics, signal, ...transfer } = options;
  const failed = new AbortController();
  const fetchSignal = AbortSignal.any([signal, failed.signal]);
  const fetched = await Promise.allSettled(
    inputs.map(async ({ role, url, maxBytes, key }): Promise<[string, string]> => {
      const path = join(dir, role);
      try {
        await fetchInput({
          ...transfer,
          url,
          path,
          maxBytes: Math.min(maxBytes, offer.limits?.maxInputBytes || maxBytes),
          what: `input ${role}`,
          key,
          signal: fetchSignal,
          onBytes: (count) => metrics.fetchedBytes.inc(count),
          onRetry: () => metrics.transferRetries.inc({ direction: 'fetch' }),
        });
        return [role, path];
      } catch (error) {
        // The other inputs are useless after this failure. All fetches end before the files are removed.
        failed.abort(error);
        throw error;
      }
    }),
  );
  signal.throwIfAborted();
  if (failed.signal.aborted) throw failed.signal.reason;
  return Object.fromEntries(
    fetched.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    }),
  );
}
