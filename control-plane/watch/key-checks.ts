import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';

export interface KeyChecksOptions {
  /** Returns those of the keys that are still valid. */
  readonly usable: (keyIds: readonly string[]) => Promise<ReadonlySet<string>>;
  readonly logger: Logger;
  /** Interval at which all keys are checked together. Default 2 s. */
  readonly everyMs?: number;
}

export interface KeyChecks {
  /** @param revoked called once, soon after the key is no longer valid @returns the function that ends it */
  follow(keyId: string, revoked: () => void): () => void;
}

/**
 * Checks the keys of everything that stays open for long. One statement covers all of them, so it costs almost
 * nothing and needs no message from the process that revoked a key.
 */
export function createKeyChecks({ usable, logger, everyMs = 2_000 }: KeyChecksOptions): KeyChecks {
  const followers = new Map<string, Set<() => void>>();
  let timer: NodeJS.Timeout | undefined;
  let looking = false;

  async function look(): Promise<void> {
    if (looking) return;
    looking = true;
    try {
      const keyIds = [...followers.keys()];
      const found = await usable(keyIds);
      for (const keyId of keyIds) {
        if (found.has(keyId)) continue;
        for (const revoked of [...(followers.get(keyId) ?? [])]) revoked();
      }
    } catch (error) {
      // The next check repeats it.
      logger.debug(`cannot check the keys of open watches: ${describeError(error)}`);
    } finally {
      looking = false;
    }
  }

  return {
    follow(keyId, revoked) {
      const all = followers.get(keyId) ?? new Set();
      followers.set(keyId, all.add(revoked));
      timer ??= setInterval(look, everyMs).unref();
      return () => {
        all.delete(revoked);
        if (all.size === 0 && followers.get(keyId) === all) followers.delete(keyId);
        if (followers.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}
