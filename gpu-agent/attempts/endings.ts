/**
 * Reason with which an attempt's signal is aborted.
 *
 * The attempt is `stopped` when a caller stopped it or the agent gave it up (drain, end, lost Lease). That is no
 * fault of the work and does not count against its retries.
 */
export class AttemptEnded extends Error {
  override readonly name = 'AttemptEnded';
  readonly code = 'attempt_ended';
  readonly retryable = true;
  readonly outcome: 'stopped' | 'interrupted';

  constructor(outcome: 'stopped' | 'interrupted', message: string) {
    super(message);
    this.outcome = outcome;
  }
}
