import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
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

const PATIENCE_MS = 30_000;

/** Client of `ws` that records all it receives. */
export class StreamClient {
  readonly ws: WebSocket;
  readonly texts: string[] = [];
  readonly media: Buffer[] = [];
  /** Code and reason of the close; 1006 means that the connection was cut. */
  closed: { code: number; reason: string; at: number } | undefined;
  /** Called after every received event. */
  readonly #waiting = new Set<() => void>();

  constructor(url: string, options?: ClientOptions) {
    this.ws = new WebSocket(url, options);
    this.ws.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.media.push(data);
      else this.texts.push(data.toString());
      this.#look();
    });
    this.ws.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString(), at: performance.now() };
      this.#look();
    });
    this.ws.on('error', () => {});
  }

  #look(): void {
    for (const check of this.#waiting) check();
  }

  /** `expect.poll` keeps every wait until the test ends, which distorts tests that measure memory. */
  #until(condition: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#waiting.delete(check);
        reject(new Error(`waited too long for ${condition}`));
      }, PATIENCE_MS);
      const check = () => {
        if (!condition()) return;
        clearTimeout(late);
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
      check();
    });
  }

  /** Resolves when the format has arrived. */
  async ready(): Promise<this> {
    await this.#until(() => this.texts.length > 0 || this.closed !== undefined);
    expect(this.closed).toBeUndefined();
    return this;
  }

  async end(): Promise<{ code: number; reason: string; at: number }> {
    await this.#until(() => this.closed !== undefined);
    return this.closed as { code: number; reason: string; at: number };
  }

  /** Throws at once when the socket is already closed, because nothing can arrive any more. */
  async received(count: number): Promise<void> {
    await this.#until(() => this.media.length >= count || this.closed !== undefined);
    if (this.media.length >= count) return;
    const { code, reason } = this.closed ?? {};
    throw new Error(`closed with ${code} ${reason} after ${this.media.length} of ${count} messages`);
  }

  /** Resolves when the gateway has read everything sent so far. */
  async heard(): Promise<void> {
    const answered = once(this.ws, 'pong');
    this.ws.ping();
    await answered;
  }
}

export const CHUNK = Buffer.alloc(1_920, 3);

/** Returns a JPEG header with a size, followed by bytes that differ per picture. */
export function jpegOf(width = 640, height = 480, bytes = 20_000): Buffer {
  const head = Buffer.from([0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0, 0xff, 0xda]);
  head.writeUInt16BE(height, 7);
  head.writeUInt16BE(width, 9);
  return Buffer.concat([head, randomBytes(bytes)]);
}

/** Creates a gateway, an agent and stream helpers for the tests of a file. */
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
    /** Opens a session that is connected and has received its format. */
    async stream(capability: 'voice' | 'full-live-swap' = 'voice', clientOptions?: ClientOptions) {
      const session = await open(capability);
      const client = new StreamClient(urlOf(session), clientOptions);
      await client.ready();
      const relay: RelayDouble = agent.relayOf(session.session_id);
      return { session, client, relay, id: session.session_id };
    },
    /** Opens a raw connection: the upgrade is done, and nothing is read until `read` is called. */
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
    /** Returns the final report of a session when it has arrived. */
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

/** Returns a masked frame, as clients send it. @param opcode 1 text, 2 binary, 9 ping */
export function frame(data: Buffer, opcode = 2): Buffer {
  const length =
    data.length < 126
      ? Buffer.from([0x80 | data.length])
      : data.length < 65_536
        ? Buffer.from([0x80 | 126, data.length >> 8, data.length & 255])
        : Buffer.concat([Buffer.from([0x80 | 127, 0, 0, 0, 0]), uint32(data.length)]);
  // A mask of zeros leaves the bytes unchanged.
  return Buffer.concat([Buffer.from([0x80 | opcode]), length, Buffer.alloc(4), data]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Sends `ms` milliseconds of sound at once, in pieces of five milliseconds. */
export function say(client: StreamClient, ms: number, { sent = [] as Buffer[], piece = 5 } = {}): Buffer[] {
  for (let said = 0; said < ms; said += piece) {
    sent.push(randomBytes(piece * 96));
    client.ws.send(sent.at(-1) as Buffer);
  }
  return sent;
}
