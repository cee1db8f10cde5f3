/**
 * Returns a function that creates a value on its first call and returns the same value afterwards. After a failure
 * the next call tries again, because the cause (no free file or process) may be gone.
 */
export function madeOnce<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
