/**
 * The id of a request must be on every answer, and in every log line of gateway and control plane that belongs to
 * it.
 */
import { connect } from 'node:net';
import { Writable } from 'node:stream';
import { createLogger } from '@semblance/common/logging';
import { type Gateway, startGateway } from '@semblance/gateway/gateway';
import {
  makeAccount,
  startTestSystem,
  type TestSystem,
} from '@semblance/testkit/control-plane/control-plane';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

type Line = Record<string, unknown>;

const logs: Record<'gateway' | 'control-plane', Line[]> = { gateway: [], 'control-plane': [] };

function loggerTo(service: keyof typeof logs) {
  const destination = new Writable({
    write(chunk, _encoding, done) {
      for (const line of String(chunk).split('\n').filter(Boolean))
        logs[service].push(JSON.parse(line) as Line);
      done();
    },
  });
  return createLogger({ service, level: 'debug', destination });
}

let system: TestSystem;
let gateway: Gateway;
let base: string;
let key: string;

beforeAll(async () => {
  system = await startTestSystem({ logger: loggerTo('control-plane') });
  gateway = await startGateway({
    listen: { host: '127.0.0.1', port: 0 },
    controlAddress: `127.0.0.1:${system.plane.port}`,
    store: system.objects,
    logger: loggerTo('gateway'),
    registry: new Registry(),
    publicUrl: 'http://gateway.test',
    // Longer than any standstill of the machine.
    timing: { control: 30_000 },
  });
  base = `http://127.0.0.1:${gateway.port}/api/v1`;
  key = (await makeAccount(system, 10)).apiKey;
});
afterAll(async () => {
  await gateway?.close();
  await system?.close();
});

let count = 0;
/** Sends a request with its own id. */
async function send(method: string, path: string, init: RequestInit = {}) {
  const id = `check-${++count}`;
  const headers = new Headers(init.headers);
  headers.set('request-id', id);
  if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
  const response = await fetch(path.startsWith('/files') ? new URL(path, base) : base + path, {
    ...init,
    method,
    headers,
  });
  const text = response.headers.get('content-type')?.startsWith('text/event-stream')
    ? await response.body?.cancel().then(() => '')
    : await response.text();
  expect(response.headers.get('request-id'), `${method} ${path}`).toBe(id);
  return { id, status: response.status, text: text ?? '' };
}

const of = (service: keyof typeof logs, id: string) =>
  logs[service].filter(({ requestId }) => requestId === id);

async function upload(bytes: Uint8Array) {
  const form = new FormData();
  form.append('file', new Blob([Buffer.from(bytes)]), 'a.jpg');
  return send('POST', '/uploads', { body: form });
}

const json = (value: unknown): RequestInit => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(value),
});

describe('Request-Id', () => {
  test('is the one that was sent, and in the log lines of both services', async () => {
    const [image, face] = [await upload(ADMIRAL.bytes), await upload(ASTRONAUT.bytes)];
    const body = {
      image_key: JSON.parse(image.text).file_key,
      face_key: JSON.parse(face.text).file_key,
    };
    const submitted = await send('POST', '/face-swap-image', json(body));
    const { id: jobId } = JSON.parse(submitted.text);
    const asked = [
      image,
      submitted,
      await send('GET', `/jobs/${jobId}`),
      await send('GET', `/jobs/${jobId}/events`),
      await send('GET', '/jobs/job-00000000000000000000000000/events'),
      await send('POST', `/jobs/${jobId}/cancel`),
      await send('POST', '/estimate', json({ capability: 'face-swap-image', ...body })),
      await send('GET', '/balance'),
      await send('GET', '/pricing'),
      await send('GET', '/usage'),
      await send('GET', '/usage/summary'),
      await send('GET', '/jobs/job-00000000000000000000000000'),
      await send('POST', '/face-swap-image', json({ image_key: 1 })),
      await send('GET', '/balance', { headers: { authorization: 'Bearer unknown' } }),
    ];
    for (const { id } of asked) {
      await eventually(`the gateway to log ${id}`, () => of('gateway', id)[0], { everyMs: 20 });
      await eventually(`the control plane to log ${id}`, () => of('control-plane', id)[0], { everyMs: 20 });
      expect(
        of('gateway', id).filter(({ route }) => route),
        'one line of access',
      ).toHaveLength(1);
    }
    // An upload is two calls to the control plane, and the id must be on the first of them too.
    expect(of('control-plane', image.id).map(({ method }) => String(method).split('/').at(-1))).toEqual([
      'BeginUpload',
      'CompleteUpload',
    ]);
    // Calls of the owner (AdminService) have no request id.
    const ofRequests = [...logs.gateway, ...logs['control-plane']].filter(
      ({ route, msg, method }) => route || (msg === 'call' && !String(method).includes('AdminService')),
    );
    for (const line of ofRequests) expect(line.requestId, JSON.stringify(line)).toBeTruthy();
  });

  test('is on answers that no service behind the gateway was asked for', async () => {
    for (const [method, path, status] of [
      ['GET', '/nowhere', 404],
      ['DELETE', '/balance', 404],
      ['GET', '/openapi.json', 200],
      ['GET', '/docs', 200],
      ['GET', '/docs/nothing.js', 404],
      ['GET', '/files/api/nothing', 403],
      ['HEAD', '/pricing', 200],
    ] as const) {
      const answer = await send(method, path);
      expect(answer.status, path).toBe(status);
      await eventually(`a line of ${path}`, () => of('gateway', answer.id)[0], { everyMs: 20 });
    }
  });

  test.each([
    ['no HTTP at all', 'no http at all\r\n\r\n', 400],
    ['headers without end', `GET / HTTP/1.1\r\n${`X-Long: ${'v'.repeat(1_000)}\r\n`.repeat(20)}\r\n`, 400],
    ['a method that is none', 'FETCH / HTTP/1.1\r\nHost: x\r\n\r\n', 400],
    ['an expectation that nobody has', 'GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n', 400],
    ['a proxy request', 'CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n', 404],
    [
      'an id that is none',
      'GET /nowhere HTTP/1.1\r\nHost: x\r\nRequest-Id: a b\r\nConnection: close\r\n\r\n',
      404,
    ],
  ])('is on the answer to %s, and in the log', async (_name, text, status) => {
    const answer = await new Promise<string>((resolve, reject) => {
      let said = '';
      const socket = connect(gateway.port, '127.0.0.1', () => socket.write(text));
      socket.setTimeout(60_000, () => socket.destroy(new Error('no end')));
      socket.on('data', (part) => {
        said += part;
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(said));
    });
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    const id = /^Request-Id: (.+)$/im.exec(answer)?.[1]?.trim() ?? '';
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    await eventually(`a line of ${id}`, () => of('gateway', id)[0], { everyMs: 20 });
  });

  test('of what fails inside is with the error, in the service where it failed and at the gateway', async () => {
    await system.database.sql`alter table rates rename to rates_away`;
    try {
      const answer = await send('GET', '/pricing');
      expect(answer.status).toBe(502);
      for (const service of ['gateway', 'control-plane'] as const) {
        await eventually(
          `the error at the ${service}`,
          () => of(service, answer.id).find(({ level }) => level === 'error'),
          {
            everyMs: 20,
          },
        );
      }
    } finally {
      await system.database.sql`alter table rates_away rename to rates`;
    }
  });
});
