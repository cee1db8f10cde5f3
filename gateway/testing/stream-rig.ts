import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import WebSocket, { type ClientOptions } from 'ws';
import { AgentDouble, type RelayDouble } from './agent-double.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './test-gateway.ts';

export interface TestSession {
  readonly session_id: string;
  readonly stream_url: string;
  readonly session_token: string;
  readonly max_duration_sec: number;
}

/** A client of `ws`, and what came to it. */
export class StreamClient {
  readonly ws: WebSocket;
  readonly texts: string[] = [];
  readonly media: Buffer[] = [];
  /** Code and reason of the close; 1006: cut off. */
  closed: { code: number; reason: string; at: number } | undefined;

  constructor(url: string, options?: ClientOptions) {
    this.ws = new WebSocket(url, options);
    this.ws.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.media.push(data);
      else this.texts.push(data.toString());
    });
    this.ws.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString(), at: performance.now() };
    });
    this.ws.on('error', () => {});
  }

  /** Resolves when the format was told. */
  async ready(): Promise<this> {
    await until(() => this.texts.length > 0 || this.closed !== undefined);
    expect(this.closed).toBeUndefined();
    return this;
  }

  async end(): Promise<{ code: number; reason: string; at: number }> {
    await until(() => this.closed !== undefined);
    return this.closed as { code: number; reason: string; at: number };
  }

  received(count: number) {
    return until(() => this.media.length >= count);
  }
}

/** As `expect.poll`, which keeps every wait until the test ends: too much where memory is counted. */
async function until(condition: () => boolean): Promise<void> {
  const last = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > last) throw new Error(`waited too long for ${condition}`);
    await delay(2);
  }
}

export const CHUNK = Buffer.alloc(1_920, 3);

/** A gateway and an agent for the tests of a file, and the ways to stream through them. */
export function streamRig(options: TestGatewayOptions = {}) {
  let gateway: TestGateway;
  const agent = new AgentDouble();
  beforeAll(async () => {
    await agent.start();
    gateway = await startTestGateway(options);
    gateway.control.live.grant = { ...gateway.control.live.grant, agentAddress: agent.address };
  });
  afterAll(async () => {
    await gateway.close();
    await agent.close();
  });

  async function open(capability: 'voice' | 'full-live-swap' = 'voice'): Promise<TestSession> {
    const response = await fetch(`${gateway.base}/${capability}/session`, {
      method: 'POST',
      headers: { ...gateway.auth, 'content-type': 'application/json' },
      body: JSON.stringify({ duration_minutes: 1 }),
    });
    expect(response.status).toBe(200);
    return (await response.json()) as TestSession;
  }

  const urlOf = ({ stream_url, session_token }: TestSession) =>
    `${stream_url.replace('ws://gateway.test', gateway.origin.replace('http', 'ws'))}?session_token=${session_token}`;

  return {
    get gateway() {
      return gateway;
    },
    get live() {
      return gateway.control.live;
    },
    agent,
    open,
    urlOf,
    /** A session that is connected and was told its format. */
    async stream(capability: 'voice' | 'full-live-swap' = 'voice', clientOptions?: ClientOptions) {
      const session = await open(capability);
      const client = new StreamClient(urlOf(session), clientOptions);
      await client.ready();
      const relay: RelayDouble = agent.relayOf(session.session_id);
      return { session, client, relay, id: session.session_id };
    },
    /** A connection by hand: the upgrade is done, and nothing is read unless `read` is called. */
    async rawStream(capability: 'voice' | 'full-live-swap' = 'voice') {
      const session = await open(capability);
      const socket = connect(gateway.port, '127.0.0.1');
      socket.on('error', () => {});
      await once(socket, 'connect');
      socket.write(upgradeHead(urlOf(session)));
      const [first] = (await once(socket, 'data')) as [Buffer];
      expect(first.toString('latin1')).toMatch(/^HTTP\/1\.1 101 /);
      socket.pause();
      return { session, socket, relay: agent.relayOf(session.session_id), id: session.session_id };
    },
    /** The final report of a session, once it came. */
    async final(id: string) {
      await expect.poll(() => gateway.control.live.finalOf(id), { interval: 5 }).toBeDefined();
      const { streamedMs, reason } = gateway.control.live.finalOf(id) as NonNullable<
        ReturnType<typeof gateway.control.live.finalOf>
      >;
      return { streamedMs: Number(streamedMs), reason };
    },
  };
}

export function upgradeHead(url: string, headers: readonly string[] = []): string {
  const { pathname, search, host } = new URL(url.replace(/^ws/, 'http'));
  const lines = [
    `GET ${pathname}${search} HTTP/1.1`,
    `Host: ${host}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ...headers,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** A masked frame, as clients send them. @param opcode 1 text, 2 binary, 9 ping */
export function frame(data: Buffer, opcode = 2): Buffer {
  const length =
    data.length < 126
      ? Buffer.from([0x80 | data.length])
      : data.length < 65_536
        ? Buffer.from([0x80 | 126, data.length >> 8, data.length & 255])
        : Buffer.concat([Buffer.from([0x80 | 127, 0, 0, 0, 0]), uint32(data.length)]);
  // With a mask of zeros the bytes stay what they are.
  return Buffer.concat([Buffer.from([0x80 | opcode]), length, Buffer.alloc(4), data]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export type { Socket };
