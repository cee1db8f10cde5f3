import { type OfferedLoad, offeredLoad } from './offered-load.ts';
import { type Peer, startPeer } from './peer-process.ts';
import { cpuSecondsOf } from './process-use.ts';

/** What is offered, apart from whom. */
export type Offer = Pick<OfferedLoad, 'perSecond' | 'seconds' | 'connections'>;

export interface Chain {
  readonly origin: string;
  /** CPU that its processes use a request, first to last, microseconds. */
  readonly micros: readonly number[];
  stop(): Promise<void>;
}

/**
 * Bare processes in a row, each of which uses as much CPU a request as it is told and does nothing else. Their own way
 * of receiving and sending costs too: that is measured first, and they burn what is missing.
 * @param wanted CPU a request, first to last, microseconds
 */
export async function startChain(wanted: readonly number[], offer: Offer): Promise<Chain> {
  const bare = await open(wanted.map(() => 0));
  const own = await cpuARequest(bare, offer);
  await bare.stop();
  const chain = await open(wanted.map((micros, i) => Math.max(0, micros - (own[i] ?? 0))));
  return { origin: chain.origin, micros: await cpuARequest(chain, offer), stop: chain.stop };
}

async function open(micros: readonly number[]) {
  const hops: Peer[] = [];
  let port = '';
  for (const [i, burnt] of [...micros.entries()].reverse()) {
    const hop = await startPeer('bare-hop.ts', [String(burnt), port, i === 0 ? 'http' : 'tcp']);
    hops.unshift(hop);
    port = new URL(hop.origin).port;
  }
  const origin = hops[0]?.origin ?? '';
  return {
    origin,
    pids: hops.map(({ pid }) => pid),
    async stop() {
      for (const hop of hops) await hop.stop();
    },
  };
}

/** CPU of each process a request, microseconds, under a load that is made now. */
export async function cpuARequest(
  target: { readonly origin: string; readonly pids: readonly number[] } & Partial<OfferedLoad>,
  offer: Offer,
): Promise<number[]> {
  const read = () => target.pids.map((pid) => cpuSecondsOf(pid) ?? Number.NaN);
  const before = read();
  await offeredLoad({ paths: ['/'], headers: {}, ...target, ...offer });
  const requests = offer.perSecond * offer.seconds;
  return read().map((seconds, i) => ((seconds - (before[i] ?? Number.NaN)) / requests) * 1e6);
}
