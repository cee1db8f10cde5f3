/** Most uploads of one account under way at one gateway; each holds a connection, a file and buffers. */
export const UPLOADS_PER_ACCOUNT = 50;

export interface UploadsUnderWay {
  /** @returns the function to call when the upload has ended, or undefined when the account has its maximum */
  enter(accountId: string): (() => void) | undefined;
}

/** Counts the uploads under way by account. */
export function createUploadsUnderWay(): UploadsUnderWay {
  const counts = new Map<string, number>();
  return {
    enter(accountId) {
      const count = counts.get(accountId) ?? 0;
      if (count >= UPLOADS_PER_ACCOUNT) return undefined;
      counts.set(accountId, count + 1);
      return () => {
        const now = counts.get(accountId) ?? 0;
        if (now > 1) counts.set(accountId, now - 1);
        else counts.delete(accountId);
      };
    },
  };
}
