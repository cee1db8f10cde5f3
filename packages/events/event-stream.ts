import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import {
  DiscardPolicy,
  ErrorCode,
  type JetStreamClient,
  type NatsConnection,
  nanos,
  RetentionPolicy,
  StorageType,
} from 'nats';
import { JOB_SUBJECTS } from './jobs.ts';

/** Name of the stream. */
export const STREAM = 'SEMBLANCE_JOBS';
const DAY_MS = 86_400_000;

/** The JetStream stream of job events on one connection. */
export interface EventStream {
  /** Client of the stream; undefined while the stream is not ready. */
  readonly client: JetStreamClient | undefined;
  /** Why the stream is not ready; undefined before the first failure. */
  readonly fault: string | undefined;
  /** Creates the stream and repeats until it exists, because a server that lost its folder has none. */
  prepare(): Promise<void>;
  /** Must be called when the connection is lost. */
  lost(): void;
}

export function keepStream(
  connection: NatsConnection,
  {
    logger,
    publishTimeoutMs,
    signal,
  }: { readonly logger: Logger; readonly publishTimeoutMs: number; readonly signal: AbortSignal },
): EventStream {
  let client: JetStreamClient | undefined;
  let preparing: Promise<void> | undefined;
  let fault: string | undefined;
  function prepare(): Promise<void> {
    preparing ??= (async () => {
      let attempt = 0;
      while (!signal.aborted && !connection.isClosed()) {
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
          client = connection.jetstream({ timeout: publishTimeoutMs });
          fault = undefined;
          return;
        } catch (error) {
          const level = attempt++ % 20 === 0 ? 'warn' : 'debug';
          fault = `the event stream is not ready: ${describeFault(error)}`;
          logger[level](fault);
          await delay(500, undefined, { signal: signal }).catch(() => {});
        }
      }
    })().finally(() => {
      preparing = undefined;
    });
    return preparing;
  }

  return {
    get client() {
      return client;
    },
    get fault() {
      return fault;
    },
    prepare,
    lost() {
      client = undefined;
    },
  };
}

function describeFault(error: unknown): string {
  // JetStream does not answer; the client tells nothing more.
  return (error as { code?: string }).code === ErrorCode.NoResponders
    ? 'the server has no JetStream, or not for this account'
    : describeError(error);
}
