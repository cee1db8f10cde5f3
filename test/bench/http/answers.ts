import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/**
 * Calls `answered` when the last byte of an answer was read, with what is wrong with the answer. Bare sockets cost
 * far less CPU than a client with a parser, and the client shares the machine with what it measures.
 */
export function onAnswers(socket: Socket, answered: (error?: string) => void): void {
  let head = '';
  /** Bytes of the body that are missing; negative while the head is read. */
  let left = -1;
  let wrong: string | undefined;
  socket.on('data', (chunk) => {
    let at = 0;
    if (left < 0) {
      const before = head.length;
      head += chunk.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      at = end + 4 - before;
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
      if (!head.startsWith('HTTP/1.1 200 ')) wrong = `answered ${head.slice(0, 20)}`;
      else if (length === undefined) wrong = 'answered without a length';
      left = Number(length ?? 0);
      head = '';
    }
    left -= chunk.length - at;
    if (left > 0) return;
    left = -1;
    answered(wrong);
  });
  socket.on('close', () => answered('closed a connection'));
  socket.on('error', () => {});
}

export interface Target {
  readonly origin: string;
  /** Paths that are requested in turn. */
  readonly paths: readonly string[];
  readonly headers: Record<string, string>;
}

/** Returns the bytes of a GET request for each path. */
export function getRequests({ origin, paths, headers }: Target): Buffer[] {
  const { host } = new URL(origin);
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return paths.map((path) => Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`));
}

/** Connection that carries one request at a time. */
export interface Connection {
  /**
   * @param request all bytes of the request
   * @throws Error when the answer is not 200
   */
  ask(request: string | Buffer): Promise<void>;
  close(): void;
}

export async function openConnection(origin: string): Promise<Connection> {
  const { hostname, port } = new URL(origin);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  let settle: ((error?: string) => void) | undefined;
  onAnswers(socket, (error) => settle?.(error));
  return {
    ask: (request) =>
      new Promise((resolve, reject) => {
        settle = (error) => (error ? reject(new Error(`${origin} ${error}`)) : resolve());
        socket.write(request);
      }),
    close: () => socket.destroy(),
  };
}
