import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { natsOptions } from '@semblance/common/nats-url';
import {
  AckPolicy,
  type ConsumerMessages,
  connect,
  DeliverPolicy,
  DiscardPolicy,
  ErrorCode,
  type JetStreamClient,
  type JsMsg,
  type Msg,
  type NatsConnection,
  nanos,
  RetentionPolicy,
  StorageType,
  type Subscription,
} from 'nats';
import {
  type BusEvent,
  type ConsumeOptions,
  type DeliveredEvent,
  type EventBus,
  EventsUnavailableError,
  RedeliverLater,
} from './bus.ts';
import { explainNats } from './explain-nats.ts';
import { JOB_SUBJECTS } from './jobs.ts';

/**
 * Time in ms after which an event that is not done is delivered again, because its handler's process is presumed
 * dead.
 */
const ACK_WAIT_MS = 30_000;

const STREAM = 'SEMBLANCE_JOBS';
const DAY_MS = 86_400_000;
const NOT_CONNECTED = 'not connected to NATS';

export interface NatsBusOptions {
  readonly url: string;
  /** PEM file of authorities for the server's certificate. When it is set, every connection uses TLS. */
  readonly caFile?: string | undefined;
  /** Name of this client in the server's list. */
  readonly name: string;
  readonly logger: Logger;
  /** Longest wait of a publish for the stream's answer, in ms. Default 3000. */
  readonly publishTimeoutMs?: number;
}

/**
 * Creates a bus on a JetStream stream. It connects in the background and again after every loss, so the creation
 * never fails. Calls without a connection fail with EventsUnavailableError.
 */
export function createNatsBus(options: NatsBusOptions): EventBus {
  const { logger, publishTimeoutMs = 3_000 } = options;
  const closing = new AbortController();
  let connection: NatsConnection | undefined;
  let stream: JetStreamClient | undefined;

  /** Listeners that were registered before the first connection. A reconnect keeps the subscriptions. */
  const listeners = new Set<{ subscribe(to: NatsConnection): void }>();

  const to = { ...natsOptions(options.url, options.caFile), name: options.name };
  const connected = connect({
    ...to,
    waitOnFirstConnect: true,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 100,
    timeout: 3_000,
    pingInterval: 5_000,
    maxPingOut: 2,
    ignoreAuthErrorAbort: true,
    // Otherwise the client creates two more errors for each publication, only for the stack trace of a failed one.
    noAsyncTraces: true,
  }).then(async (got) => {
    if (closing.signal.aborted) return await got.close();
    connection = got;
    fault = NOT_CONNECTED;
    for (const listener of listeners) listener.subscribe(got);
    listeners.clear();
    void follow(got);
    await prepare();
  });
  connected.catch((error) => logger.error(`cannot connect to NATS: ${describeError(error)}`));

  let fault = NOT_CONNECTED;
  const onFault = (why: string) => {
    fault = `${NOT_CONNECTED}: ${why}`;
  };
  const explained = { to, logger, onFault, done: () => connection !== undefined, signal: closing.signal };
  // Refused credentials end the process: the uncaught error is logged.
  void explainNats(explained).catch((error: unknown) =>
    queueMicrotask(() => {
      throw error;
    }),
  );

  async function follow(to: NatsConnection): Promise<void> {
    for await (const status of to.status()) {
      if (status.type === 'disconnect') {
        stream = undefined;
        logger.warn('disconnected from NATS');
      } else if (status.type === 'reconnect') {
        logger.info('connected to NATS again');
        void prepare();
      } else if (status.type === 'error') logger.warn({ data: String(status.data) }, 'NATS error');
    }
  }

  /** Creates the stream and repeats until it exists, because a server that lost its folder has none. */
  let preparing: Promise<void> | undefined;
  let unprepared: string | undefined;
  function prepare(): Promise<void> {
    preparing ??= (async () => {
      let attempt = 0;
      while (connection && !closing.signal.aborted && !connection.isClosed()) {
        try {
          const manager = await connection.jetstreamManager({ timeout: 3_000 });
          const wanted = {
            subjects: [JOB_SUBJECTS],
            max_age: nanos(7 * DAY_MS),
            // There is no max_bytes, because the server reserves all of it when the stream is created.
            max_bytes: -1,
            max_msgs: 1_000_000,
            discard: DiscardPolicy.Old,
            duplicate_window: nanos(10 * 60_000),
          };
          // A stream of an earlier release may have other settings.
          if (await manager.streams.info(STREAM).catch(() => undefined)) {
            await manager.streams.update(STREAM, wanted);
          } else {
            const fixed = { name: STREAM, retention: RetentionPolicy.Limits, storage: StorageType.File };
            await manager.streams.add({ ...wanted, ...fixed });
          }
          stream = connection.jetstream({ timeout: publishTimeoutMs });
          unprepared = undefined;
          return;
        } catch (error) {
          const level = attempt++ % 20 === 0 ? 'warn' : 'debug';
          unprepared = `the event stream is not ready: ${describeFault(error)}`;
          logger[level](unprepared);
          await delay(500, undefined, { signal: closing.signal }).catch(() => {});
        }
      }
    })().finally(() => {
      preparing = undefined;
    });
    return preparing;
  }

  async function publish(event: BusEvent): Promise<void> {
    if (!stream) throw new EventsUnavailableError('not connected to NATS');
    try {
      await stream.publish(event.subject, JSON.stringify(event.data), {
        msgID: event.id,
        timeout: publishTimeoutMs,
        expect: { streamName: STREAM },
      });
    } catch (error) {
      // No responders: the server runs but the stream does not exist.
      if ((error as { code?: string }).code === '503') void prepare();
      throw new EventsUnavailableError(`cannot publish ${event.subject}`, { cause: error });
    }
  }

  async function consume(consumer: ConsumeOptions): Promise<void> {
    const { signal } = consumer;
    const running = new Set<Promise<void>>();
    while (!signal.aborted && !closing.signal.aborted) {
      try {
        if (!stream || !connection) throw new EventsUnavailableError('not connected to NATS');
        await handleFrom(stream, connection, consumer, running);
      } catch (error) {
        if (signal.aborted || closing.signal.aborted) break;
        logger.debug(`consumer ${consumer.durable} waits: ${describeError(error)}`);
        await delay(300, undefined, { signal }).catch(() => {});
      }
    }
    await Promise.allSettled(running);
  }

  function listen(subject: string, heard: (subject: string) => void): () => void {
    let subscription: Subscription | undefined;
    const listener = {
      subscribe(to: NatsConnection) {
        if (to.isClosed() || to.isDraining()) return;
        const callback = (error: Error | null, message: Msg) => {
          if (!error) heard(message.subject);
        };
        subscription = to.subscribe(subject, { callback });
      },
    };
    if (connection) listener.subscribe(connection);
    else listeners.add(listener);
    return () => {
      listeners.delete(listener);
      subscription?.unsubscribe();
    };
  }

  return {
    publish,
    consume,
    listen,
    check() {
      if (!connection || connection.isClosed()) throw new EventsUnavailableError(fault);
      if (!stream) throw new EventsUnavailableError(unprepared ?? NOT_CONNECTED);
    },
    async close() {
      closing.abort();
      await connection?.close();
    },
  };
}

function describeFault(error: unknown): string {
  // JetStream does not answer; the client tells nothing more.
  return (error as { code?: string }).code === ErrorCode.NoResponders
    ? 'the server has no JetStream, or not for this account'
    : describeError(error);
}

async function handleFrom(
  stream: JetStreamClient,
  connection: NatsConnection,
  options: ConsumeOptions,
  running: Set<Promise<void>>,
): Promise<void> {
  const { signal, durable, concurrency = 16 } = options;
  const manager = await connection.jetstreamManager({ timeout: 3_000 });
  const settings = {
    filter_subjects: [...options.subjects],
    ack_wait: nanos(ACK_WAIT_MS),
    // An event is delivered until it is done.
    max_deliver: -1,
    max_ack_pending: Math.max(1_000, concurrency * 4),
  };
  const known = await manager.consumers.info(STREAM, durable).catch(() => undefined);
  if (known) await manager.consumers.update(STREAM, durable, settings);
  else {
    await manager.consumers.add(STREAM, {
      ...settings,
      durable_name: durable,
      ack_policy: AckPolicy.Explicit,
      deliver_policy: options.from === 'new' ? DeliverPolicy.New : DeliverPolicy.All,
    });
  }
  const consumer = await stream.consumers.get(STREAM, durable);
  const messages: ConsumerMessages = await consumer.consume({
    max_messages: concurrency * 2,
    expires: 5_000,
  });
  const stop = () => void messages.close();
  signal.addEventListener('abort', stop, { once: true });
  // The signal may have aborted meanwhile. The consumer is then closed and read to its end, because the close never
  // resolves while messages are unread.
  if (signal.aborted) stop();
  try {
    for await (const message of messages) {
      while (running.size >= concurrency) await Promise.race(running);
      if (signal.aborted) break;
      const work = handle(message, options).finally(() => running.delete(work));
      running.add(work);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    await messages.close().catch(() => {});
  }
}

async function handle(message: JsMsg, { handler, signal }: ConsumeOptions): Promise<void> {
  let event: DeliveredEvent;
  try {
    event = delivered(message);
  } catch {
    // The message is not JSON, so it is not one of ours and never will be.
    message.term();
    return;
  }
  try {
    await handler(event, signal);
    message.ack();
  } catch (error) {
    if (error instanceof RedeliverLater) message.nak(error.delayMs);
    else message.nak(backoffMs(message.info.deliveryCount, 250, 30_000));
  }
}

function delivered(message: JsMsg): DeliveredEvent {
  return {
    subject: message.subject,
    id: message.headers?.get('Nats-Msg-Id') ?? '',
    data: message.json(),
    delivery: message.info.deliveryCount,
    storedAt: new Date(Math.floor(message.info.timestampNanos / 1e6)),
  };
}
