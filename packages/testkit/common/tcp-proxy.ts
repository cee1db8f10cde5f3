import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What becomes of connections: they pass, are broken and refused, or hang (accepted, open, and silent). */
export type TcpProxyMode = 'open' | 'refuse' | 'hang';

/** A TCP relay to one server that can be told to fail, for tests of what talks to that server. */
export interface TcpProxy {
  /** At 127.0.0.1, unless told otherwise. */
  readonly port: number;
  /**
   * `refuse` breaks every connection and each new one. `hang` lets no byte through and closes nothing: what is sent
   * meanwhile waits. Back to `open`, connections that hung go on with what waited, where neither end gave up.
   */
  set(mode: TcpProxyMode): void;
  /** Breaks every connection there is; new ones fare by the mode. */
  cut(): void;
  close(): Promise<void>;
}

export async function startTcpProxy(target: {
  readonly host?: string;
  readonly port: number;
  /** Address that it listens at. */
  readonly listen?: string;
}): Promise<TcpProxy> {
  const { host = '127.0.0.1', port, listen = '127.0.0.1' } = target;
  const sockets = new Set<Socket>();
  let mode: TcpProxyMode = 'open';
  const server = createServer((near) => {
    if (mode === 'refuse') {
      near.on('error', () => {}).resetAndDestroy();
      return;
    }
    const far = connect(port, host);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk) => {
        // Only one that still takes bytes: the other end may have gone in the same turn.
        if (to.writable && !to.write(chunk)) from.pause();
      });
      to.on('drain', () => mode !== 'hang' && from.resume());
      from.on('end', () => to.end());
      from.on('error', () => to.destroy());
      from.on('close', (broken) => {
        sockets.delete(from);
        // What was read before an orderly end is passed on first.
        if (broken) to.destroy();
        else to.destroySoon();
      });
      if (mode === 'hang') from.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, listen, resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    set(next) {
      mode = next;
      if (mode === 'refuse') cut();
      for (const socket of sockets) {
        if (mode === 'hang') socket.pause();
        else socket.resume();
      }
    },
    cut,
    close: () =>
      new Promise((resolve) => {
        cut();
        server.close(() => resolve());
      }),
  };
}
