/**
 * Reason with which an attempt's signal is aborted.
 *
 * Work that the agent gave up (drain, end, lost Lease) or was asked to end is `stopped`: no fault of the work, and
 * not counted against its retries.
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
