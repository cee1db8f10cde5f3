let listener: (() => void) | undefined;

/**
 * Makes SIGTERM end this process, until `endEarlyNoMore`. Call it before a service's modules are loaded, which
 * takes seconds on a busy machine. The first process of a container ignores a signal without a listener, so a Pod
 * deleted in that time would stay for its whole grace period.
 */
export function endEarly(): void {
  listener = () => process.exit(128 + 15);
  process.on('SIGTERM', listener);
}

/** Ends `endEarly`. Call it when SIGTERM is handled otherwise. */
export function endEarlyNoMore(): void {
  if (listener) process.off('SIGTERM', listener);
  listener = undefined;
}
