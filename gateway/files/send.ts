import type { ServerResponse } from 'node:http';
import { StatusError } from '../http/envelope.ts';

/** How often one file, and all together, may be sent at once. A reader that stalls costs memory until it is cut off. */
export interface SendLimits {
  readonly perFile: number;
  readonly inAll: number;
}

export const SEND_LIMITS: SendLimits = { perFile: 32, inAll: 1_000 };

/** Counts the files that are being sent. */
export interface SendCount {
  /**
   * Counts one until the returned function is called.
   * @throws StatusError 503 over a limit
   */
  begin(key: string): () => void;
}

export function createSendCount({ perFile, inAll }: SendLimits): SendCount {
  const files = new Map<string, number>();
  let all = 0;
  return {
    begin(key) {
      const before = files.get(key) ?? 0;
      if (before >= perFile || all >= inAll)
        throw new StatusError(503, 'at_capacity', 'Too many downloads are under way; try again shortly.');
      files.set(key, before + 1);
      all++;
      return () => {
        all--;
        const left = (files.get(key) ?? 0) - 1;
        if (left > 0) files.set(key, left);
        else files.delete(key);
      };
    },
  };
}

/**
 * Sends a source as the body of an answer. A client that leaves is no fault; one that takes nothing for `idleMs` is cut
 * off. A failing source cuts the connection, so that the client notices the truncation.
 */
export async function sendAtPace(
  source: AsyncIterable<Buffer>,
  response: ServerResponse,
  idleMs: number,
): Promise<void> {
  try {
    for await (const piece of source) if (!(await taken(response, piece, idleMs))) return;
    response.end();
  } catch (error) {
    response.destroy();
    throw error;
  }
}

/**
 * Resolves with true when the kernel has taken the whole piece, so at most one waits here. Node's own timer of a socket
 * starts anew when a part of it went out, and would wait twice as long.
 */
function taken(response: ServerResponse, piece: Buffer, idleMs: number): Promise<boolean> {
  if (response.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    const settle = (whether: boolean) => {
      clearTimeout(timer);
      response.off('close', onClose);
      resolve(whether);
    };
    const onClose = () => settle(false);
    const timer = setTimeout(() => response.destroy(), idleMs);
    response.once('close', onClose);
    response.write(piece, (error) => settle(!error));
  });
}
