import { createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { LiveServiceClient } from '@semblance/proto/semblance/live/v1/live';

/** The clients of the agents, one for each address in use. */
export interface Agents {
  /** Must be released once, when the relay is over. */
  acquire(address: string): { readonly client: LiveServiceClient; release(): void };
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

  function drop(address: string): void {
    const entry = entries.get(address);
    clearTimeout(entry?.idle);
    entry?.client.close();
    entries.delete(address);
  }

  return {
    acquire(address) {
      let entry = entries.get(address);
      if (!entry) {
        entry = { client: createClient(LiveServiceClient, address, token, tls?.to('agent')), users: 0 };
        entries.set(address, entry);
      }
      const used = entry;
      clearTimeout(used.idle);
      used.users++;
      return {
        client: used.client,
        release() {
          if (--used.users > 0 || entries.get(address) !== used) return;
          used.idle = setTimeout(() => drop(address), idleMs);
          used.idle.unref();
        },
      };
    },
    get size() {
      return entries.size;
    },
    close() {
      for (const address of [...entries.keys()]) drop(address);
    },
  };
}
