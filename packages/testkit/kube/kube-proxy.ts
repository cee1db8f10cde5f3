import { readFile, writeFile } from 'node:fs/promises';
import { parse, stringify } from 'yaml';
import { startTcpProxy, type TcpProxy } from '../common/tcp-proxy.ts';

/** Starts a relay to the API server of the kubeconfig `from`, and writes a copy `to` that uses the relay. */
export async function startKubeProxy(from: string, to: string): Promise<TcpProxy> {
  const config = parse(await readFile(from, 'utf8')) as { clusters: { cluster: { server: string } }[] };
  const server = new URL(config.clusters[0]?.cluster.server ?? '');
  const proxy = await startTcpProxy({ host: server.hostname, port: Number(server.port) });
  for (const { cluster } of config.clusters) cluster.server = `https://127.0.0.1:${proxy.port}`;
  await writeFile(to, stringify(config), { mode: 0o600 });
  return proxy;
}
