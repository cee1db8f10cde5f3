/** An event as it is stored and delivered. */
export interface BusEvent {
  /** Dot-separated, such as `semblance.jobs.<job id>.succeeded`. */
  readonly subject: string;
  /** The same id again within the stream's window is stored once. */
  readonly id: string;
  /** Any JSON value. */
  readonly data: unknown;
}

export interface DeliveredEvent extends BusEvent {
  /** 1 on the first delivery. */
  readonly delivery: number;
  /** States when the stream stored it. */
  readonly storedAt: Date;
}

/** Thrown by a handler to have the event again after a time of its own choosing. */
export class RedeliverLater extends Error {
  override readonly name = 'RedeliverLater';
  readonly code = 'redeliver_later';
  readonly retryable = true;
  readonly delayMs: number;

  constructor(delayMs: number, options?: ErrorOptions) {
    super(`again in ${delayMs} ms`, options);
    this.delayMs = delayMs;
  }
}

/** Nobody stores events at present: not connected, or no answer in time. Publish again later. */
export class EventsUnavailableError extends Error {
  override readonly name = 'EventsUnavailableError';
  readonly code = 'events_unavailable';
  readonly retryable = true;
}

export interface ConsumeOptions {
  /** Consumers of one name share the events, each going to one of them; the place survives restarts. */
  readonly durable: string;
  /** Subjects, with `*` for one part and `>` for the rest. */
  readonly subjects: readonly string[];
  /** Done when it resolves; delivered again when it throws. The signal aborts when the consumer ends. */
  readonly handler: (event: DeliveredEvent, signal: AbortSignal) => Promise<void>;
  /** Events handled at once. Default 16. */
  readonly concurrency?: number;
  /** States where a new durable begins. Default: with the oldest event stored. */
  readonly from?: 'all' | 'new';
  readonly signal: AbortSignal;
}

/** "Something happened", kept for consumers that are away. Fed from an outbox alone, so nothing in it is invented. */
export interface EventBus {
  /** Resolves when the event is stored. @throws EventsUnavailableError */
  publish(event: BusEvent): Promise<void>;
  /**
   * Handles events until the signal aborts, across every loss of the connection; resolves when the last handler has
   * ended.
   */
  consume(options: ConsumeOptions): Promise<void>;
  /**
   * Hears of events as they are published, from now on and while connected: each at most once, to every listener of
   * every process. What was missed is not told, so a listener also looks by itself from time to time.
   * @param subject as in `ConsumeOptions.subjects`
   * @returns ends it
   */
  listen(subject: string, heard: (subject: string) => void): () => void;
  /** @throws EventsUnavailableError when not connected. */
  check(): void;
  close(): Promise<void>;
}
