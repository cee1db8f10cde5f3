import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parse, stringify } from 'yaml';

/** A connection to the API server that can be cut. */
export interface TcpProxy {
  /** A kubeconfig like the given one that goes through the proxy. */
  writeKubeconfig(from: string, to: string): Promise<void>;
  /** Breaks every connection; with `refuse`, new ones too until `restore`. */
  cut(options?: { refuse?: boolean }): void;
  restore(): void;
  /** Lets no byte through any more without closing anything, until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** Connections accepted so far. */
  readonly accepted: number;
  close(): Promise<void>;
}

/** Forwards TCP to a server at loopback, until told otherwise. */
export async function startTcpProxy(target: { readonly port: number }): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let refusing = false;
  let frozen = false;
  let accepted = 0;
  const server = createServer((client) => {
    accepted++;
    if (refusing) {
      client.destroy();
      return;
    }
    const upstream = connect(target.port, '127.0.0.1');
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    if (frozen) for (const socket of [client, upstream]) socket.pause();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    async writeKubeconfig(from, to) {
      const config = parse(await readFile(from, 'utf8')) as {
        clusters: { cluster: Record<string, unknown> }[];
      };
      for (const { cluster } of config.clusters) cluster.server = `https://127.0.0.1:${port}`;
      await writeFile(to, stringify(config), { mode: 0o600 });
    },
    cut({ refuse = false } = {}) {
      refusing = refuse;
      cut();
    },
    restore() {
      refusing = false;
    },
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    thaw() {
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
    get accepted() {
      return accepted;
    },
    close: () =>
      new Promise((resolve) => {
        cut();
        server.close(() => resolve());
      }),
  };
}

/** Port of the API server that a kubeconfig names. */
export async function serverPort(kubeconfigPath: string): Promise<number> {
  const config = parse(await readFile(kubeconfigPath, 'utf8')) as {
    clusters: { cluster: { server: string } }[];
  };
  return Number(new URL(config.clusters[0]?.cluster.server ?? '').port);
}
