/**
 * Whatever a caller without a valid key sends, it costs the gateway's only thread little. Processor time of the whole
 * process is counted, the client's and that of the double of the control plane with it.
 */
import { gzipSync } from 'node:zlib';
import { BOUNDARY, FORM_TYPE } from '@semblance/testkit/gateway/form';
import {
  parseRaw,
  sendRaw,
  startTestGateway,
  type TestGateway,
} from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { STREAMS_PATH } from '../streams/paths.ts';

const MOST_MS = 20;
const HEADERS_BYTES = 15_000;
const WITH_BODY = ['POST', 'PUT', 'PATCH'];
const BODY_BYTES = 256 * 1024;
const JSON_TYPE = 'application/json';
const JOB = 'job-06e2tq8mdkrv1v7bz7mx0q0k3c';

interface Body {
  readonly what: string;
  readonly type: string;
  readonly bytes: Buffer;
  readonly encoding?: string;
}

interface RouteUnderTest {
  readonly method: string;
  readonly path: string;
  /** Fields of its JSON body. */
  readonly fields: readonly string[];
}

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());

/** Repeats a text to about so many bytes. */
const fill = (text: string, bytes: number) => text.repeat(Math.floor(bytes / text.length));

const json = (what: string, text: string): Body => ({ what, type: JSON_TYPE, bytes: Buffer.from(text) });
const form = (what: string, text: string): Body => ({ what, type: FORM_TYPE, bytes: Buffer.from(text) });

const BODIES: readonly Body[] = [
  json('lists in lists', fill('[', BODY_BYTES / 2) + fill(']', BODY_BYTES / 2)),
  json('many names', `{${Array.from({ length: 18_000 }, (_, i) => `"k${i}":[]`).join()}}`),
  json('many numbers', `[${fill('0,', BODY_BYTES - 10)}0]`),
  json('many escapes', `"${fill('\\u0000', BODY_BYTES - 10)}"`),
  {
    what: 'much in little',
    type: JSON_TYPE,
    bytes: gzipSync(Buffer.alloc(100_000_000, ' ')),
    encoding: 'gzip',
  },
  form('nearly boundaries', fill(`\r\n--${BOUNDARY.slice(0, -1)}`, BODY_BYTES)),
  form(
    'many parts',
    fill(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n`, BODY_BYTES),
  ),
  form('a long head of a part', `--${BOUNDARY}\r\n${fill('a: b\r\n', BODY_BYTES)}`),
];

const bodiesOf = (field: string): Body[] => [
  json(`${field}: many objects`, `{"${field}":[${fill('{},', BODY_BYTES - 100)}{}]}`),
  json(`${field}: a long text`, `{"${field}":"${fill('a/', BODY_BYTES - 100)}"}`),
  json(`${field}: a long link`, `{"${field}":"https://a.example/${fill('%20', BODY_BYTES - 100)}"}`),
];

const HEADERS = [
  'Cookie',
  'Idempotency-Key',
  'If-None-Match',
  'Range',
  'tracestate',
  'Content-Type',
  'Accept',
];
const HEADER_TEXTS = ['a', ',', 'a=b;', '"a", '];
const QUERIES = [
  fill('a&', HEADERS_BYTES),
  fill('%61=1&', HEADERS_BYTES),
  fill('a&', 1_000),
  fill('from=&', 1_000),
];

/** Returns the routes that the OpenAPI document tells of. */
async function routes(): Promise<RouteUnderTest[]> {
  interface Schema {
    readonly $ref?: string;
    readonly properties?: object;
  }
  type Operation = {
    readonly requestBody?: { readonly content: Record<string, { readonly schema: Schema }> };
  };
  const document = (await (await fetch(`${t.base}/openapi.json`)).json()) as {
    readonly paths: Record<string, Record<string, Operation>>;
    readonly components: { readonly schemas: Record<string, Schema> };
  };
  return Object.entries(document.paths).flatMap(([template, operations]) => {
    const prefix = template.startsWith(STREAMS_PATH) || template.startsWith('/files') ? '' : '/api/v1';
    const path = prefix + template.replaceAll(/\{\w+\}/g, JOB);
    return Object.entries(operations)
      .filter(([method]) => ['get', 'head', 'post', 'delete', 'put', 'patch'].includes(method))
      .map(([method, { requestBody }]) => {
        const schema = requestBody?.content[JSON_TYPE]?.schema;
        const named = document.components.schemas[schema?.$ref?.split('/').at(-1) ?? ''] ?? schema;
        return { method: method.toUpperCase(), path, fields: Object.keys(named?.properties ?? {}) };
      });
  });
}

function requestsTo({ method, path, fields }: RouteUnderTest): [what: string, bytes: Buffer][] {
  const request = (query: string, headers: string[], body: Buffer = Buffer.alloc(0)) =>
    Buffer.concat([
      Buffer.from(
        [`${method} ${path}${query} HTTP/1.1`, 'Host: x', 'Connection: close', ...headers, '', ''].join(
          '\r\n',
        ),
      ),
      body,
    ]);
  const key = 'Authorization: Bearer x';
  const bodies = WITH_BODY.includes(method) ? [...BODIES, ...fields.flatMap(bodiesOf)] : [];
  return [
    ...QUERIES.map((query): [string, Buffer] => [`?${query.slice(0, 12)}…`, request(`?${query}`, [key])]),
    ...HEADER_TEXTS.flatMap((text): [string, Buffer][] => {
      const long = fill(text, HEADERS_BYTES);
      return [
        [`Authorization: ${text}`, request('', [`Authorization: Bearer ${long}!`])],
        ...HEADERS.map((name): [string, Buffer] => [
          `${name}: ${text}`,
          request('', [key, `${name}: bytes=${long}!`]),
        ]),
      ];
    }),
    ...bodies.map(({ what, type, bytes, encoding }): [string, Buffer] => {
      const coding = encoding ? [`Content-Encoding: ${encoding}`] : [];
      const headers = [key, `Content-Type: ${type}`, `Content-Length: ${bytes.length}`, ...coding];
      return [what, request('', headers, bytes)];
    }),
  ];
}

/**
 * Sends a request until it was cheap, three times at least: compilation and garbage of what went before are not its own.
 * Returns the least processor time, in ms, and the status of the answer.
 */
async function costOf(bytes: Buffer): Promise<{ ms: number; status: number }> {
  let ms = Number.POSITIVE_INFINITY;
  let status = 0;
  for (let i = 0; i < 3 || (ms > MOST_MS && i < 20); i++) {
    const before = process.cpuUsage();
    ({ status } = parseRaw(await sendRaw(t.port, bytes, 0)));
    const { user, system } = process.cpuUsage(before);
    ms = Math.min(ms, (user + system) / 1000);
  }
  return { ms, status };
}

describe('a request without a valid key', () => {
  it('costs little, on every route', async () => {
    const dear: string[] = [];
    const all = await routes();
    expect(all.length).toBeGreaterThan(15);
    for (const route of all)
      for (const [what, bytes] of requestsTo(route)) {
        const { ms, status } = await costOf(bytes);
        // A request without an answer would cost nothing.
        if (ms > MOST_MS || status === 0)
          dear.push(`${route.method} ${route.path} with ${what}: ${ms} ms, ${status}`);
      }
    expect(dear).toEqual([]);
  }, 120_000);

  it('is refused for a query that is longer than any can be, with the limit', async () => {
    const answer = await fetch(`${t.base}/balance?${'a'.repeat(1_025)}`, { headers: t.auth });
    expect([answer.status, await answer.json()]).toEqual([
      400,
      { error: { code: 'invalid_input', message: 'The query must be at most 1024 bytes long.' } },
    ]);
    const allowed = await fetch(`${t.base}/balance?${'a'.repeat(1_024)}`, { headers: t.auth });
    expect(allowed.status).toBe(200);
  });
});
