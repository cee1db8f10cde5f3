import { lstat } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { type ServiceError, status } from '@grpc/grpc-js';
import { describeError } from '@semblance/common/errors';
import { call } from '@semblance/common/grpc/client';
import { connect, SIDECAR_TIMES } from '@semblance/engine-sidecar/connection';

/** An engine cannot be reached or started. */
class UnreachableError extends Error {
  override readonly name = 'UnreachableError';
}

/** @throws UnreachableError unless there is a socket */
export async function assertThere(socket: string): Promise<void> {
  const file = await lstat(socket).catch((error: NodeJS.ErrnoException) => {
    throw new UnreachableError(
      error.code === 'ENOENT' ? `there is no ${socket}: is the engine running?` : describeError(error),
    );
  });
  if (!file.isSocket()) throw new UnreachableError(`${socket} is no socket`);
}

/**
 * Waits until the engine behind a socket answers. An agent waits for its sidecars for ever, but a person who tests
 * one must learn what is wrong.
 * @throws UnreachableError in one line, or the signal's reason
 */
export async function reach(socket: string, signal: AbortSignal, timeoutMs = 10_000): Promise<void> {
  await assertThere(socket);
  const connection = connect(socket, SIDECAR_TIMES);
  try {
    await call(connection.client.getInfo.bind(connection.client), {}, { timeoutMs, signal });
  } catch (error) {
    signal.throwIfAborted();
    throw new UnreachableError(`${socket}: ${reasonOf(error as ServiceError, timeoutMs)}`);
  } finally {
    connection.close();
  }
}

/**
 * Checks that an engine may be started on a socket, because engines delete what is there.
 * @throws UnreachableError unless the path is free or is the socket of an engine that has ended
 */
export async function assertFree(socket: string): Promise<void> {
  const file = await lstat(socket).catch(() => undefined);
  if (!file) return;
  if (!file.isSocket()) throw new UnreachableError(`${socket} is there already, and is no socket`);
  const listens = await new Promise<boolean>((resolve) => {
    const connection = connectSocket(socket, () => resolve(true)).once('error', () => resolve(false));
    connection.once('connect', () => connection.destroy());
  });
  if (listens)
    throw new UnreachableError(`somebody listens on ${socket} already: end it, or give no command`);
}

function reasonOf(error: ServiceError, timeoutMs: number): string {
  const { code, details } = error;
  if (code === status.DEADLINE_EXCEEDED) return `GetInfo was not answered within ${timeoutMs / 1_000} s`;
  if (code === status.UNAVAILABLE && /ECONNREFUSED/.test(details)) return 'nobody listens there any more';
  if (code === status.UNIMPLEMENTED)
    return 'who listens there does not serve semblance.engine.v1.EngineService';
  return `GetInfo failed: ${(details || describeError(error)).split('\n')[0]}`;
}
