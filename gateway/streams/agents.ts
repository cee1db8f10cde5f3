import { createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { LiveServiceClient } from '@semblance/proto/semblance/live/v1/live';

/** The clients of the agents, one for each process in use. */
export interface Agents {
  /**
   * Must be released once, when the relay is over.
   * @param certificate of the agent in PEM; undefined: it has one of the authority
   */
  acquire(address: string, certificate?: string): { readonly client: LiveServiceClient; release(): void };
  readonly size: number;
  close(): void;
}

/** Time for which an unused connection is kept for the agent's next session, in ms. */
const IDLE_MS = 30_000;

interface Entry {
  readonly client: LiveServiceClient;
  users: number;
  idle?: NodeJS.Timeout | undefined;
}

/** @param token of the installation */
export function createAgents({
  token,
  tls,
  idleMs = IDLE_MS,
}: {
  token?: string | undefined;
  tls?: Tls | undefined;
  idleMs?: number;
}): Agents {
  const entries = new Map<string, Entry>();

  function drop(key: string): void {
    const entry = entries.get(key);
    clearTimeout(entry?.idle);
    entry?.client.close();
    entries.delete(key);
  }

  return {
    acquire(address, certificate) {
      // Another process may have the address by now.
      const key = `${address} ${certificate ?? ''}`;
      let entry = entries.get(key);
      if (!entry) {
        const secure = tls?.to('agent', certificate);
        entry = { client: createClient(LiveServiceClient, address, token, secure), users: 0 };
        entries.set(key, entry);
      }
      const used = entry;
      clearTimeout(used.idle);
      used.users++;
      return {
        client: used.client,
        release() {
          if (--used.users > 0 || entries.get(key) !== used) return;
          used.idle = setTimeout(() => drop(key), idleMs);
          used.idle.unref();
        },
      };
    },
    get size() {
      return entries.size;
    },
    close() {
      for (const key of [...entries.keys()]) drop(key);
    },
  };
}
