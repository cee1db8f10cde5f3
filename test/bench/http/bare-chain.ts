import { type OfferedLoad, offeredLoad } from './offered-load.ts';
import { type Peer, startPeer } from './peer-process.ts';
import { cpuSecondsOf } from './process-use.ts';

/** The load, without its target. */
export type Offer = Pick<OfferedLoad, 'perSecond' | 'seconds' | 'connections'>;

export interface Chain {
  readonly origin: string;
  /** CPU that each process uses per request, first to last, in microseconds. */
  readonly micros: readonly number[];
  stop(): Promise<void>;
}

/**
 * Starts bare processes in a row that only burn a given CPU time per request. Their own receiving and sending also
 * cost CPU. That is measured first, and they burn the rest.
 * @param wanted CPU per request, first to last, in microseconds
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

/** Returns the CPU of each process per request under a new load, in microseconds. */
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
