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
  /** Time at which the stream stored the event. */
  readonly storedAt: Date;
}

/** Thrown by a handler to receive the event again after a time that it chooses. */
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

/** No server stores events at present: there is no connection, or no answer in time. Publish again later. */
export class EventsUnavailableError extends Error {
  override readonly name = 'EventsUnavailableError';
  readonly code = 'events_unavailable';
  readonly retryable = true;
}

export interface ConsumeOptions {
  /**
   * Name of the consumer. Consumers of one name share the events: each event goes to one of them. The server
   * remembers their position across restarts.
   */
  readonly durable: string;
  /** Subjects, with `*` for one part and `>` for the rest. */
  readonly subjects: readonly string[];
  /**
   * Handles one event. The event is done when the promise resolves, and delivered again when it rejects. The signal
   * aborts when the consumer ends.
   */
  readonly handler: (event: DeliveredEvent, signal: AbortSignal) => Promise<void>;
  /** Events handled at once. Default 16. */
  readonly concurrency?: number;
  /** Position at which a new durable begins. Default: the oldest event stored. */
  readonly from?: 'all' | 'new';
  readonly signal: AbortSignal;
}

/**
 * Delivers events to consumers, and keeps them while a consumer is away. Only the outbox publishes, so each event
 * describes a committed change.
 */
export interface EventBus {
  /** Resolves when the event is stored. @throws EventsUnavailableError */
  publish(event: BusEvent): Promise<void>;
  /**
   * Handles events until the signal aborts, and survives lost connections. Resolves when the last handler has
   * ended.
   */
  consume(options: ConsumeOptions): Promise<void>;
  /**
   * Calls `heard` for each event published from now on, at most once, while connected. Every listener of every
   * process hears each event. Missed events are not repeated, so a listener must also poll.
   * @param subject as in `ConsumeOptions.subjects`
   * @returns a function that ends the listening
   */
  listen(subject: string, heard: (subject: string) => void): () => void;
  /** @throws EventsUnavailableError when not connected. */
  check(): void;
  close(): Promise<void>;
}
