/**
 * The outcome of work that cannot be told to stop, waited for until the signal at most: decoding a large picture takes
 * longer than a cancelled render may go on, and with a process that shares its models all its renders would be killed.
 *
 * Only for work that fills memory. It goes on by itself, and what comes of it is thrown away.
 * @throws the signal's reason, or what the work throws
 */
export async function untilCancelled<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const cancelled = Promise.withResolvers<never>();
  const cancel = () => cancelled.reject(signal.reason);
  if (signal.aborted) cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    // The signal first, should both have settled.
    return await Promise.race([cancelled.promise, work]);
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}
