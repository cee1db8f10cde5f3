import type { GatewayContext } from './context.ts';
import { ClientGoneError } from './request-body.ts';

/**
 * Does something that only its client has a use for.
 * @param work given a signal that aborts when the client's connection closes before it was answered
 * @throws ClientGoneError when it did, whatever became of the work's failure; otherwise what the work throws
 */
export async function whileClientWaits<T>(
  { res }: Pick<GatewayContext, 'res'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const leave = () => gone.abort(new ClientGoneError('the client went away'));
  // `close` was told to others already when the connection broke before this began.
  if (res.closed || res.destroyed) leave();
  res.once('close', leave);
  try {
    return await work(gone.signal);
  } catch (error) {
    throw gone.signal.aborted ? gone.signal.reason : error;
  } finally {
    res.off('close', leave);
  }
}
