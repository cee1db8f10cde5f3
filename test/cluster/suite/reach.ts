import { BlockList } from 'node:net';
import { networkInterfaces } from 'node:os';
import { kubectl } from './release.ts';

export type Place = { readonly pod: string; readonly namespace?: string; readonly container?: string };

/** Script that opens a connection to each `host:port` and prints the result: `open`, or the error's code. */
const PROBE = `
const net = require('node:net');
const attempt = (target) => new Promise((resolve) => {
  const at = target.lastIndexOf(':');
  const socket = net.connect({ host: target.slice(0, at), port: Number(target.slice(at + 1)) });
  const end = (how) => { socket.destroy(); resolve([target, how]); };
  socket.setTimeout(4000, () => end('timeout'));
  socket.on('connect', () => end('open'));
  socket.on('error', (error) => end(error.code));
});
Promise.all(process.argv.slice(1).map(attempt)).then((all) => console.log(JSON.stringify(all)));
`;

/** Returns the addresses to which a Pod can open a connection. The Pod itself resolves names. */
export async function reachable(place: Place, targets: Readonly<Record<string, string>>): Promise<string[]> {
  const said = await kubectl([
    ...['exec', place.pod, ...(place.namespace ? ['--namespace', place.namespace] : [])],
    ...(place.container ? ['--container', place.container] : []),
    ...['--', 'node', '-e', PROBE, ...Object.values(targets)],
  ]);
  const ends = new Map(JSON.parse(said) as [string, string][]);
  const wrong = [...ends].filter(([, how]) => /ENOTFOUND|EAI_AGAIN/.test(how));
  // An unknown name says nothing about what can be reached.
  if (wrong.length > 0) throw new Error(`names that ${place.pod} cannot look up: ${wrong}`);
  return Object.keys(targets).filter((name) => ends.get(targets[name] ?? '') === 'open');
}

/** Returns this machine's address in the network of a node; for the cluster it is an address outside. */
export function addressBeside(node: string): string {
  for (const each of Object.values(networkInterfaces()).flat()) {
    if (each?.family !== 'IPv4' || !each.cidr) continue;
    const network = new BlockList();
    network.addSubnet(each.address, Number(each.cidr.split('/')[1]));
    if (network.check(node)) return each.address;
  }
  throw new Error(`no network of this machine has ${node}`);
}
