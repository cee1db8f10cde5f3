import { connect, createServer, type Socket } from 'node:net';

/** A TCP relay to one port of loopback that can be told to fail: `open`, `refuse` (resets) or `hang` (says nothing). */
export async function startTcpProxy(targetPort: number) {
  const sockets = new Set<Socket>();
  let mode: 'open' | 'refuse' | 'hang' = 'open';
  const server = createServer((inner) => {
    sockets.add(inner);
    inner.on('error', () => {}).on('close', () => sockets.delete(inner));
    if (mode === 'refuse') return void inner.destroy();
    if (mode === 'hang') return;
    const outer = connect(targetPort, '127.0.0.1');
    sockets.add(outer);
    outer
      .on('error', () => inner.destroy())
      .on('close', () => {
        sockets.delete(outer);
        inner.destroy();
      });
    inner.on('close', () => outer.destroy());
    inner.on('data', (chunk) => mode !== 'hang' && outer.write(chunk));
    outer.on('data', (chunk) => mode !== 'hang' && inner.write(chunk));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    set(next: typeof mode) {
      mode = next;
      // A connection that hung has lost bytes: it is of no use afterwards.
      if (next !== 'hang') for (const socket of sockets) socket.destroy();
    },
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
