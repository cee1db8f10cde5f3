import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { createLogger } from '@semblance/common/logging';
import type { EventStreamsOptions } from '@semblance/gateway/events/event-streams';
import { type GatewayOptions, type GatewayTiming, startGateway } from '@semblance/gateway/gateway';
import type { SizeLimits } from '@semblance/gateway/uploads/recognise';
import { DirectoryStore } from '@semblance/objects/directory-store';
import { Registry } from 'prom-client';
import { ControlDouble, TEST_KEY } from './control-double.ts';

const PUBLIC_URL = 'http://gateway.test';

export interface TestGatewayOptions {
  readonly liveStreams?: GatewayOptions['liveStreams'];
  readonly internalToken?: string;
  readonly sizeLimits?: SizeLimits;
  readonly sendLimits?: GatewayOptions['sendLimits'];
  readonly outputReserveBytes?: number;
  readonly eventStreams?: EventStreamsOptions;
  readonly timing?: Partial<GatewayTiming>;
  readonly keyless?: GatewayOptions['keyless'];
  readonly tryPage?: boolean;
  readonly console?: boolean;
}

export type TestGateway = Awaited<ReturnType<typeof startTestGateway>>;

/** Starts the real gateway with a directory store of its own, in front of a double of the control plane. */
export async function startTestGateway(options: TestGatewayOptions = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-gateway-'));
  const signingKey = Buffer.alloc(32, 7);
  // Links contain the gateway's address, which is known only once it listens. So tests use the path of a link.
  const store = new DirectoryStore({ folder, signingKey, publicUrl: PUBLIC_URL });
  const control = new ControlDouble(store);
  await control.start();
  const logLines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      logLines.push(String(chunk));
      done();
    },
  });
  const registry = new Registry();
  const gateway = await startGateway({
    listen: { host: '127.0.0.1', port: 0 },
    controlAddress: `127.0.0.1:${control.port}`,
    store,
    logger: createLogger({ service: 'gateway', level: 'info', destination }),
    registry,
    publicUrl: PUBLIC_URL,
    ...options,
    // A control plane that stands still with the machine must not count as silent.
    timing: { drain: 1_000, tidy: 500, control: 30_000, pricingKept: 0, ...options.timing },
  });
  const origin = `http://127.0.0.1:${gateway.port}`;
  return {
    origin,
    base: `${origin}/api/v1`,
    port: gateway.port,
    gateway,
    control,
    store,
    folder,
    registry,
    logLines,
    auth: { authorization: `Bearer ${TEST_KEY}` },
    /** Maps a link of the store to the address that serves it. */
    local: (url: string) => url.replace(PUBLIC_URL, origin),
    /** Returns the paths of all stored objects and temporary files. */
    async files(): Promise<string[]> {
      const entries = await readdir(folder, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    },
    async close() {
      await gateway.close();
      await control.close();
      await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** Longest wait for an answer, or for the rest of one, in ms. */
const ANSWER_MS = 30_000;

/**
 * Sends bytes unchanged. Reads the answer until the server closes, or until `quietMs` pass after a whole answer.
 * @param answerMs longest wait for an answer
 */
export function sendRaw(
  port: number,
  bytes: string | Buffer | Buffer[],
  quietMs = 400,
  answerMs = ANSWER_MS,
): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve(received);
    };
    let timer = setTimeout(end, answerMs);
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      clearTimeout(timer);
      timer = setTimeout(end, isWhole(received) ? quietMs : answerMs);
    });
    socket.on('close', end);
    socket.on('error', () => {});
    for (const part of Array.isArray(bytes) ? bytes : [bytes]) socket.write(part);
  });
}

/** Whether the last answer is complete by its Content-Length; true when it has none. */
function isWhole(received: string): boolean {
  const at = received.lastIndexOf('HTTP/1.1 ');
  const { headers, body } = parseRaw(received.slice(at));
  if (!received.slice(at).includes('\r\n\r\n')) return false;
  return body.length >= Number(headers['content-length'] ?? 0);
}

export function parseRaw(text: string): RawAnswer {
  const split = text.indexOf('\r\n\r\n');
  const [first = '', ...lines] = text.slice(0, split).split('\r\n');
  return {
    status: Number(first.split(' ')[1]),
    headers: Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    ),
    body: text.slice(split + 4),
  };
}
