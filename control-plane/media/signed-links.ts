import type { ObjectStore } from '@semblance/objects/store';

export interface SignedLinksOptions {
  readonly objects: Pick<ObjectStore, 'signGet'>;
  readonly now?: (() => number) | undefined;
}

export interface SignedLinks {
  /**
   * Returns a link for clients.
   * @param since creation of the object, from which windows are counted
   * @param linkSeconds lifetime
   * @param options the same for every link to the object, except that `until` may come closer
   */
  to(key: string, since: Date, linkSeconds: number, options?: LinkOptions): Promise<string>;
}

export interface LinkOptions {
  /** Name under which a client saves the object. */
  readonly filename?: string;
  /** Deletion of the object, which no link outlives; null: it is kept. */
  readonly until?: Date | null;
  /** API key with which the link ends. */
  readonly keyId?: string | undefined;
}

/** Number of cached links. */
const MAX_LINKS = 5_000;

/**
 * Signs links so that asking again gives the same one: the signature dates from the beginning of a window, counted
 * from the creation of the object. A window is half a lifetime long, so every link is valid for at least the other
 * half.
 */
export function createSignedLinks({ objects, now = Date.now }: SignedLinksOptions): SignedLinks {
  const links = new Map<string, Promise<string>>();
  return {
    to(key, since, linkSeconds, { filename, until, keyId } = {}) {
      const signedAt = windowStart(since, linkSeconds, now());
      const left = until ? Math.floor((until.getTime() - signedAt.getTime()) / 1000) : linkSeconds;
      const expiresInSeconds = Math.max(1, Math.min(linkSeconds, left));
      const name = `${signedAt.getTime()} ${expiresInSeconds} ${keyId} ${key}`;
      const known = links.get(name);
      if (known) return known;
      const link = objects.signGet(key, {
        expiresInSeconds,
        signedAt,
        audience: 'public',
        ...(filename !== undefined && { filename }),
        ...(keyId !== undefined && { keyId }),
      });
      link.catch(() => links.delete(name));
      links.set(name, link);
      for (const oldest of links.keys()) {
        if (links.size <= MAX_LINKS) break;
        links.delete(oldest);
      }
      return link;
    },
  };
}

/** Returns the latest multiple of half a lifetime after `since` that is not in the future, to the second. */
export function windowStart(since: Date, linkSeconds: number, now: number): Date {
  const start = Math.floor(since.getTime() / 1000);
  const half = Math.max(1, Math.floor(linkSeconds / 2));
  const windows = Math.max(0, Math.floor((Math.floor(now / 1000) - start) / half));
  return new Date((start + windows * half) * 1000);
}
