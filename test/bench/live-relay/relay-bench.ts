import { execFileSync, fork, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { availableParallelism, setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { call, createClient } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import { ENGINE_NICE } from '@semblance/gpu-agent/engines/host/engine-process';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { ClaimSlotRequest, LiveServiceClient } from '@semblance/proto/semblance/live/v1/live';
import { openRelay, type RelayClient } from '@semblance/testkit/live/relay-client';
import { shippedVoice } from '@semblance/testkit/live/voices';
import { speech } from '@semblance/testkit/voice/sounds';
import { type BenchContext, figure, quantile, type Row, type Section } from '../lib/section.ts';
import type { ChildReady } from './agent-child.ts';

const CHUNK = 960;
const CHUNK_MS = 20;
/** Chunks of each session, also when there are many sessions. */
const CHUNKS = 750;
const MANY = 16;
const NICEST = 19;
/** Largest share of a core that a conversion may take, in percent. */
const MAX_SHARE = 2;
/** Numbers of sessions, tried in turn until chunks come late. The next constant is the length of each session. */
const LADDER = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96];
const LADDER_CHUNKS = 300;
/** Tries of each number of sessions. */
const TRIES = 3;
/** First chunks of a stream, which are not counted. */
const BEGINNING = 50;

/** Measures the delay that an agent adds to voice, compared with a relay that only sends back what comes. */
export async function runLiveRelayBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const child = fork(new URL('./agent-child.ts', import.meta.url), {
    execArgv: [...AGENT_FLAGS],
    stdio: 'inherit',
  });
  const [ready] = (await once(child, 'message')) as [ChildReady];
  const cpuMs = async () => {
    child.send('cpu');
    const [answer] = (await once(child, 'message')) as [{ cpuMs: number }];
    return answer.cpuMs;
  };
  const agent = createClient(LiveServiceClient, ready.address);
  const echo = createClient(LiveServiceClient, ready.echoAddress);
  const sound = await speech('flite slt');
  const { json: voice } = await shippedVoice('calm-alto');

  async function session(settings: Record<string, string>): Promise<RelayClient> {
    const ticket = randomBytes(32);
    const names = { sessionId: newId('ses-'), incarnation: ready.incarnation };
    const request = ClaimSlotRequest.fromPartial({
      ...names,
      capability: 'voice',
      settings,
      connectDeadlineSeconds: 60,
      maxDurationSeconds: 600,
      ticketSha256: createHash('sha256').update(ticket).digest(),
    });
    await call(agent.claimSlot.bind(agent), request, { timeoutMs: 10_000 });
    return openRelay(agent, { ...names, ticket, requestId: '' });
  }

  /** Sends paced sound through all the relays at once, and returns the ms after which each chunk came back. */
  async function away(
    relays: readonly RelayClient[],
    chunks = CHUNKS,
  ): Promise<{ times: number[]; cpuMs: number }> {
    await Promise.all(relays.map(({ ready: begun }) => begun));
    const before = await cpuMs();
    const times = await Promise.all(
      relays.map(async (relay, k) => {
        const times: number[] = [];
        const sent: number[] = [];
        const reading = (async () => {
          for (let n = 0; n < chunks; n++) {
            await relay.next();
            times.push(performance.now() - (sent[n] as number));
          }
        })();
        const began = performance.now() + (k * CHUNK_MS) / relays.length;
        for (let n = 0; n < chunks; n++) {
          await delay(Math.max(0, began + n * CHUNK_MS - performance.now()));
          const at = (n * CHUNK) % (sound.length - CHUNK);
          sent.push(performance.now());
          relay.send(new Uint8Array(sound.slice(at, at + CHUNK).buffer));
        }
        await reading;
        return times.slice(BEGINNING);
      }),
    );
    const spent = (await cpuMs()) - before;
    for (const relay of relays) relay.call.cancel();
    return { times: times.flat(), cpuMs: spent };
  }

  /**
   * Returns the share of late chunks with `count` sessions. It takes the least of some tries, because the machine
   * may cause a late chunk.
   */
  async function lateShare(open: (count: number) => Promise<RelayClient[]>, count: number): Promise<number> {
    let least = 1;
    for (let n = 0; n < TRIES && least > 0; n++) {
      const { times } = await away(await open(count), LADDER_CHUNKS);
      least = Math.min(least, times.filter((ms) => ms > CHUNK_MS).length / times.length);
    }
    return least;
  }

  /**
   * Returns the most sessions that one core of the agent carried without a late chunk, and with at most one in a
   * thousand.
   */
  async function mostInTime(open: (count: number) => Promise<RelayClient[]>): Promise<[number, number]> {
    let [inTime, nearly] = [0, 0];
    for (const count of LADDER) {
      const late = await lateShare(open, count);
      if (late > 0.001) break;
      if (late === 0 && inTime === nearly) inTime = count;
      nearly = count;
    }
    return [inTime, nearly];
  }

  try {
    say('live-relay: a relay that only sends back');
    const open = { sessionId: 'x', incarnation: '', ticket: Buffer.alloc(0), requestId: '' };
    const bare = await away([openRelay(echo, open)]);
    const bareMany = await away(Array.from({ length: MANY }, () => openRelay(echo, open)));
    say('live-relay: pass-through and conversion');
    const through = await away([await session({})]);
    const converted = await away([await session({ voice })]);
    say(`live-relay: ${MANY} conversions at once`);
    const conversions = (count = MANY) =>
      Promise.all(Array.from({ length: count }, () => session({ voice })));
    const many = await away(await conversions());
    const besideRenders = async (nice: number) => {
      say(`live-relay: the same while every core renders at a nice value of ${nice}`);
      const renders = Array.from({ length: availableParallelism() }, () => keepBusy(nice));
      return away(await conversions()).finally(() => {
        for (const render of renders) render.kill('SIGKILL');
      });
    };
    const [beside, besideNicest] = [await besideRenders(ENGINE_NICE), await besideRenders(NICEST)];
    say('live-relay: how many conversions one core carries');
    execFileSync('taskset', ['-acp', '0', String(child.pid)], { stdio: 'ignore' });
    const most = await mostInTime(conversions);
    const bareMost = await mostInTime(async (count) =>
      Array.from({ length: count }, () => openRelay(echo, open)),
    );
    return {
      title: 'Live relay of an agent',
      rows: [
        row('pass-through', through.times, bare.times, 3, 10),
        row('one conversion', converted.times, bare.times),
        row(`${MANY} conversions at once`, many.times, bareMany.times),
        row(`the same while every core renders, at nice ${ENGINE_NICE}`, beside.times, bareMany.times),
        row(`the same while every core renders, at nice ${NICEST}`, besideNicest.times, bareMany.times),
        {
          name: `processor time of one of ${MANY} conversions`,
          ours: `${figure(shareOfCore(many.cpuMs))} % of a core`,
          peer: `${figure(shareOfCore(bareMany.cpuMs))} % (sending back)`,
          ratio: '',
          goal: `≤ ${MAX_SHARE} %`,
          met: shareOfCore(many.cpuMs) <= MAX_SHARE ? 'met' : 'not met',
        },
        {
          name: 'conversions on one core: no chunk late, and at most one in a thousand',
          ours: `${most[0]} and ${most[1]} sessions`,
          peer: `${bareMost[0]} and ${bareMost[1]} (sending back)`,
          ratio: '',
          goal: '',
          met: '',
        },
      ],
      notes: [
        `Chunks of ${CHUNK_MS} ms, each sent when its time has come; times from the sending of a chunk until it is back, gRPC both ways on one machine included. The converter's own 25 ms, by which its sound is later, are not in them. Bare: a gRPC server in the same process that sends each message back, on a machine that renders nothing. A core that renders: a process that computes all the time; ${ENGINE_NICE} is what engine processes have unless SEMBLANCE_AGENT_RENDER_NICE says another value.`,
        `A chunk is late when it is back after more than its own ${CHUNK_MS} ms. The agent has one core then, the clients are on the others; numbers tried: ${LADDER.join(', ')}, ${(LADDER_CHUNKS * CHUNK_MS) / 1000} s each, up to ${TRIES} times.`,
      ],
    };
  } finally {
    agent.close();
    echo.close();
    child.disconnect();
    await once(child, 'exit');
  }
}

/** Returns the share of a core of one of `MANY` sessions, in percent. */
function shareOfCore(cpuMs: number): number {
  return (100 * cpuMs) / (CHUNKS * CHUNK_MS) / MANY;
}

/** Starts a process that uses the CPU as a render does. */
function keepBusy(nice: number) {
  const render = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  if (render.pid !== undefined) setPriority(render.pid, nice);
  return render;
}

/**
 * @param p50 most that ours may add to the bare relay's median, in ms
 * @param p99 most that ours may add to its 99th percentile, in ms
 */
function row(
  name: string,
  ours: readonly number[],
  bare: readonly number[],
  p50?: number,
  p99?: number,
): Row {
  const both = (times: readonly number[]) => [quantile(times, 0.5), quantile(times, 0.99)] as const;
  const [own, other] = [both(ours), both(bare)];
  const added = [own[0] - other[0], own[1] - other[1]] as const;
  const text = (times: readonly number[]) => times.map((ms) => figure(ms)).join(' and ');
  const goal = p50 !== undefined && p99 !== undefined;
  return {
    name: `${name}: p50 and p99`,
    ours: `${text(own)} ms`,
    peer: `${text(other)} ms (bare relay)`,
    ratio: `${added.map((ms) => (ms < 0 ? '' : '+') + figure(ms)).join(' and ')} ms`,
    goal: goal ? `added ≤ ${p50} and ${p99} ms` : '',
    met: goal ? (added[0] <= p50 && added[1] <= p99 ? 'met' : 'not met') : '',
  };
}
