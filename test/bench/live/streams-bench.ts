import { setTimeout as delay } from 'node:timers/promises';
import { TEST_KEY } from '@semblance/testkit/gateway/control-double';
import { type Peer, startPeer } from '../http/peer-process.ts';
import { cpuSecondsOf, residentBytesOf } from '../http/process-use.ts';
import {
  type BenchContext,
  figure,
  limitRow,
  quantile,
  type Row,
  type Section,
  unmeasuredRow,
} from '../lib/section.ts';
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts';
import { CHUNK_MS, connectTalkers, type Talkers } from './talkers.ts';

const FEW = 10;
const ROUNDS = 5;
const SECONDS = 3;
const GOAL_P50_MS = 3;
const GOAL_P99_MS = 10;
const IDLE = 500;
const STREAMING = 100;
/** Seconds of streaming; less than the 30 s that a session may be idle. */
const CROWD_SECONDS = 8;
const WARM_UP_SECONDS = 2;
const SETTLE_MS = 4_000;
/** Sessions through the whole stack, as many as one small agent has slots for. */
const WHOLE = 2;

/**
 * Measures the delay that the gateway adds to pass-through voice, compared with a bare `ws` echo of the same
 * traffic. Also measures the cost of a crowd of sessions. Control plane and agent are scripted, so that nothing
 * else is measured. Two sessions through the whole stack follow.
 */
export async function runStreamsBench({ stack, say }: BenchContext): Promise<Section> {
  const peer = await startPeer('../live/bare-echo.ts', []);
  const plane = await startPeer('../live/scripted-plane.ts', []);
  const gateway = await startGatewayProcess(Number(new URL(plane.origin).port));
  try {
    const echo = async () => peer.origin.replace('http', 'ws');
    const scripted = () => openVoice(gateway.baseUrl, TEST_KEY);
    say(`live: ${FEW} sessions beside a bare echo`);
    const few = await besides(FEW, echo, scripted);
    say(`live: ${IDLE} idle and ${STREAMING} streaming sessions`);
    const crowd = await crowdRows(peer, gateway, scripted);
    say(`live: ${WHOLE} sessions through the whole stack`);
    const { base_url, api_key } = stack.read();
    const whole = await besides(WHOLE, echo, () => openVoice(base_url, api_key)).catch(
      (error: Error) => error,
    );
    return {
      title: 'Live streams',
      rows: [
        ...addedRows(`pass-through voice, ${FEW} sessions`, few),
        ...crowd,
        ...(whole instanceof Error
          ? [unmeasuredRow(`whole stack, ${WHOLE} sessions`, '', whole.message)]
          : addedRows(`whole stack, pass-through voice, ${WHOLE} sessions`, whole)),
      ],
      notes: [
        `Messages of ${CHUNK_MS} ms at 48 kHz, each sent when it is due; the time is from sending one until it is back. Ours and the echo take turns of ${SECONDS} s, ${ROUNDS} each; medians of the turns. The clients run on the same cores.`,
        `The control plane and the agent of the scripted sessions are one process of memory alone, which sends media back over gRPC; the gateway is as it is run, with its log.`,
        `Event loop: by how much its timers were late while ${STREAMING} sessions streamed for ${CROWD_SECONDS} s and ${IDLE} were connected. Memory: resident, once as many sessions had come and gone, and at the end of that time.`,
      ],
    };
  } finally {
    await gateway.stop();
    await plane.stop();
    await peer.stop();
  }
}

async function openVoice(baseUrl: string, apiKey: string): Promise<string> {
  const response = await fetch(`${baseUrl}/voice/session`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ duration_minutes: 10 }),
  });
  const body = (await response.json()) as Record<string, string> & { error?: { code: string } };
  if (!response.ok) throw new Error(`a session could not be opened: ${body.error?.code}`);
  return `${body.stream_url}?session_token=${body.session_token}`;
}

interface Turn {
  readonly p50: number;
  readonly p99: number;
}

interface Besides {
  readonly ours: Turn[];
  readonly theirs: Turn[];
}

async function turn(talkers: Talkers, seconds: number): Promise<Turn> {
  const { delays, missing } = await talkers.talk(seconds);
  if (missing > 0) throw new Error(`${missing} messages did not come back`);
  return { p50: quantile(delays, 0.5), p99: quantile(delays, 0.99) };
}

async function besides(
  count: number,
  echo: () => Promise<string>,
  ours: () => Promise<string>,
): Promise<Besides> {
  const theirs = await connectTalkers(Array.from({ length: count }, () => echo));
  const own = await connectTalkers(Array.from({ length: count }, () => ours)).catch((error) => {
    theirs.close();
    throw error;
  });
  try {
    await turn(theirs, WARM_UP_SECONDS);
    await turn(own, WARM_UP_SECONDS);
    const turns: Besides = { ours: [], theirs: [] };
    for (let round = 0; round < ROUNDS; round++) {
      turns.theirs.push(await turn(theirs, SECONDS));
      turns.ours.push(await turn(own, SECONDS));
    }
    return turns;
  } finally {
    theirs.close();
    own.close();
  }
}

function addedRows(name: string, { ours, theirs }: Besides): Row[] {
  return (
    [
      ['p50', GOAL_P50_MS],
      ['p99', GOAL_P99_MS],
    ] as const
  ).map(([share, limit]) => {
    const [own, peer] = [ours, theirs].map((turns) =>
      quantile(
        turns.map((one) => one[share]),
        0.5,
      ),
    ) as [number, number];
    const row = limitRow({ name: `${name}: added delay, ${share}`, ours: own - peer, limit, unit: 'ms' });
    return {
      ...row,
      ours: `${figure(own)} − ${figure(peer)} = ${row.ours}`,
      peer: `${figure(peer)} ms (bare ws echo)`,
    };
  });
}

interface Crowd extends Turn {
  readonly missing: number;
  /** Resident bytes of the server per session; `all` is their sum. */
  readonly each: number;
  readonly all: number;
  /** Share of a core, in [0, 1]. */
  readonly cpu: number;
}

/** @param begun called when all is warm and the measurement begins */
async function crowdAt(
  pid: number,
  open: () => Promise<string>,
  begun: () => Promise<unknown>,
): Promise<Crowd> {
  const connectAll = () => connectTalkers(Array.from({ length: IDLE + STREAMING }, () => open));
  // The same crowd comes once before, so that the server's code is compiled and its heap has grown, as after some
  // time of service.
  const earlier = await connectAll();
  await earlier.talk(WARM_UP_SECONDS, STREAMING);
  earlier.close();
  await delay(SETTLE_MS);
  const before = residentBytesOf(pid) ?? Number.NaN;
  const talkers = await connectAll();
  try {
    await talkers.talk(WARM_UP_SECONDS, STREAMING);
    await begun();
    const cpuBefore = cpuSecondsOf(pid) ?? Number.NaN;
    const { delays, missing } = await talkers.talk(CROWD_SECONDS, STREAMING);
    const all = residentBytesOf(pid) ?? Number.NaN;
    return {
      p50: quantile(delays, 0.5),
      p99: quantile(delays, 0.99),
      missing,
      each: (all - before) / (IDLE + STREAMING),
      all,
      cpu: ((cpuSecondsOf(pid) ?? Number.NaN) - cpuBefore) / CROWD_SECONDS,
    };
  } finally {
    talkers.close();
  }
}

async function crowdRows(peer: Peer, gateway: GatewayProcess, open: () => Promise<string>): Promise<Row[]> {
  const theirs = await crowdAt(
    peer.pid,
    async () => peer.origin.replace('http', 'ws'),
    async () => {},
  );
  const ours = await crowdAt(gateway.pid, open, () => gateway.loopLag());
  const lag = await gateway.loopLag();
  const ms = (value: number) => `${figure(value)} ms`;
  const both = (what: string, told: (crowd: Crowd) => string): Row => {
    const name = `${IDLE} idle, ${STREAMING} streaming: ${what}`;
    return { name, ours: told(ours), peer: `${told(theirs)} (bare ws echo)`, ratio: '', goal: '', met: '' };
  };
  return [
    both('delay, p50, p99; lost', ({ p50, p99, missing }) => `${ms(p50)}, ${ms(p99)}; ${missing}`),
    {
      ...both('event loop late by, p50, p99, most', () => [lag.p50, lag.p99, lag.max].map(ms).join(', ')),
      peer: '',
    },
    both(
      'memory, a session',
      ({ each, all }) => `${figure(each / 1000)} kB (${figure(all / 2 ** 20)} MiB in all)`,
    ),
    both('CPU of the server', ({ cpu }) => `${figure(cpu * 100)} % of a core`),
  ];
}
