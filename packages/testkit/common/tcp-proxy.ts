import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Treatment of connections: pass; break and refuse; or hang (accepted, open and silent). */
export type TcpProxyMode = 'open' | 'refuse' | 'hang';

/** TCP relay to one server that can be told to fail, for tests of the server's clients. */
export interface TcpProxy {
  /** Port at 127.0.0.1, or at the address of `listen`. */
  readonly port: number;
  /**
   * Changes the mode. `refuse` breaks every present and new connection. `hang` passes no byte and closes nothing;
   * sent bytes wait. Back at `open`, the waiting bytes pass, if neither end gave up.
   */
  set(mode: TcpProxyMode): void;
  /** Breaks all present connections; new ones follow the mode. */
  cut(): void;
  close(): Promise<void>;
}

export async function startTcpProxy(target: {
  readonly host?: string;
  readonly port: number;
  /** Address to listen on. */
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
        // The other end may have closed in the same turn, so only a writable end takes bytes.
        if (to.writable && !to.write(chunk)) from.pause();
      });
      to.on('drain', () => mode !== 'hang' && from.resume());
      from.on('end', () => to.end());
      from.on('error', () => to.destroy());
      from.on('close', (broken) => {
        sockets.delete(from);
        // An orderly end first passes on the bytes that were read before it.
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
