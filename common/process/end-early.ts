let listener: (() => void) | undefined;

/**
 * Ends this process at SIGTERM from now on, until `endEarlyNoMore`. To be called before a service's modules are loaded,
 * which takes seconds on a busy machine: the first process of a container is not ended by a signal that it does not listen
 * for, and a Pod deleted in that time would stay for its whole grace period.
 */
export function endEarly(): void {
  listener = () => process.exit(128 + 15);
  process.on('SIGTERM', listener);
}

/** For who listens from now on. */
export function endEarlyNoMore(): void {
  if (listener) process.off('SIGTERM', listener);
  listener = undefined;
}
