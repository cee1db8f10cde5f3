import { backoffMs } from '@semblance/common/async/backoff';
import {
  AckPolicy,
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamClient,
  type JsMsg,
  type NatsConnection,
  nanos,
} from 'nats';
import { type ConsumeOptions, type DeliveredEvent, RedeliverLater } from './bus.ts';
import { STREAM } from './event-stream.ts';

/**
 * Time in ms after which an event that is not done is delivered again, because its handler's process is presumed
 * dead.
 */
const ACK_WAIT_MS = 30_000;

/**
 * Handles the events of a durable consumer until the signal aborts or the connection fails.
 * @param running receives the handlers under way
 */
export async function handleFrom(
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
