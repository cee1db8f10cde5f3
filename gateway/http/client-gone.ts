import type { GatewayContext } from './context.ts';
import { ClientGoneError } from './request-body.ts';

/**
 * Does work that only its client needs.
 * @param work gets a signal that aborts when the client's connection closes before the answer
 * @throws ClientGoneError in that case, whatever the work threw; otherwise the error of the work
 */
export async function whileClientWaits<T>(
  { res }: Pick<GatewayContext, 'res'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const leave = () => gone.abort(new ClientGoneError('the client went away'));
  // `close` was already emitted when the connection broke before this began.
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
