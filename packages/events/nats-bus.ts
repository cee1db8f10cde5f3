import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { natsOptions } from '@semblance/common/nats-url';
import { connect, type Msg, type NatsConnection, type Subscription } from 'nats';
import { type BusEvent, type ConsumeOptions, type EventBus, EventsUnavailableError } from './bus.ts';
import { handleFrom } from './consumer.ts';
import { type EventStream, keepStream, STREAM } from './event-stream.ts';
import { explainNats } from './explain-nats.ts';

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
  let stream: EventStream | undefined;

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
    stream = keepStream(got, { logger, publishTimeoutMs, signal: closing.signal });
    await stream.prepare();
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
        stream?.lost();
        logger.warn('disconnected from NATS');
      } else if (status.type === 'reconnect') {
        logger.info('connected to NATS again');
        void stream?.prepare();
      } else if (status.type === 'error') logger.warn({ data: String(status.data) }, 'NATS error');
    }
  }

  async function publish(event: BusEvent): Promise<void> {
    const client = stream?.client;
    if (!client) throw new EventsUnavailableError('not connected to NATS');
    try {
      await client.publish(event.subject, JSON.stringify(event.data), {
        msgID: event.id,
        timeout: publishTimeoutMs,
        expect: { streamName: STREAM },
      });
    } catch (error) {
      // No responders: the server runs but the stream does not exist.
      if ((error as { code?: string }).code === '503') void stream?.prepare();
      throw new EventsUnavailableError(`cannot publish ${event.subject}`, { cause: error });
    }
  }

  async function consume(consumer: ConsumeOptions): Promise<void> {
    const { signal } = consumer;
    const running = new Set<Promise<void>>();
    while (!signal.aborted && !closing.signal.aborted) {
      try {
        const client = stream?.client;
        if (!client || !connection) throw new EventsUnavailableError('not connected to NATS');
        await handleFrom(client, connection, consumer, running);
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
      if (!stream?.client) throw new EventsUnavailableError(stream?.fault ?? NOT_CONNECTED);
    },
    async close() {
      closing.abort();
      await connection?.close();
    },
  };
}
