import { type Answer, isFailure, readAnswer } from '@semblance/testkit/stack/api';
import { endSession, type SessionRecord } from '@semblance/testkit/stack/live-session';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { MULTIPART, multipart } from '@semblance/testkit/stack/multipart';
import { type Contract, type Operation, readContract } from '@semblance/testkit/stack/openapi';
import { anything, createSchemaArbitrary } from '@semblance/testkit/stack/schema-arbitrary';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { askFairly } from '@semblance/testkit/stack/standstill';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let contract: Contract;
let known: Record<string, string[]>;

beforeAll(async () => {
  stack = await sharedStack();
  // With so little money, generated submits are refused and cannot keep the agent busy.
  account = await stack.newAccount({ balanceUsd: 0.2 });
  contract = await readContract(account.api.baseUrl);
  const [image, face] = await Promise.all([account.api.upload(ADMIRAL), account.api.upload(ASTRONAUT)]);
  const { id } = await account.api.swap({ image_key: image, face_key: face });
  const { output_url } = await account.api.finished(id);
  const link = new URL(output_url ?? '');
  known = {
    job_id: [id],
    image_key: [image],
    face_key: [face],
    character_key: [image],
    video_key: [image],
    // A key of nobody is used here, because the other requests need the real files.
    file_key: [`${image.slice(0, -1)}0`],
    key: [link.pathname.replace('/files/', '')],
    expires: [link.searchParams.get('expires') ?? ''],
    signature: [link.searchParams.get('signature') ?? ''],
    asset: ['page.js', 'swagger-ui.css'],
    from: ['2026-01-01', '2026-01-31T10:30:00Z'],
    to: ['2036-01-01', '2036-01-31T10:30:00.5Z'],
  };
}, 240_000);

interface Generated {
  readonly path: Record<string, unknown>;
  readonly query: Record<string, unknown>;
  readonly headers: Record<string, unknown>;
  readonly body: unknown;
  readonly key: 'good' | 'none' | 'bad';
  readonly type: string;
}

const HEADER_TEXT = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0xff })
    .filter((code) => code !== 0x7f)
    .map((code) => String.fromCharCode(code)),
  maxLength: 300,
});

/** One of two optional parameters is left out, so that some requests with many of them are valid. */
const LEFT_OUT = 1;

/** Generates requests that the document allows for an operation, and others. */
function requestsFor(operation: Operation): fc.Arbitrary<Generated> {
  const { valid } = createSchemaArbitrary({ contract, known });
  const part = (place: string) => {
    const fields = (operation.parameters ?? [])
      .filter((parameter) => parameter.in === place)
      .map(({ name, required, schema }) => {
        const wild = place === 'header' ? HEADER_TEXT : anything;
        const value = fc.oneof({ weight: 4, arbitrary: valid(schema, name) }, { weight: 1, arbitrary: wild });
        const optional = required ? value : fc.option(value, { nil: undefined, freq: LEFT_OUT });
        return [name, optional] as const;
      });
    return fc.record(Object.fromEntries(fields)) as fc.Arbitrary<Record<string, unknown>>;
  };
  const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const body = !content
    ? fc.constant(undefined)
    : type === 'multipart/form-data'
      ? fc.uint8Array({ maxLength: 3_000 })
      : fc.oneof({ weight: 8, arbitrary: valid(content.schema) }, { weight: 1, arbitrary: anything });
  return fc.record({
    path: part('path'),
    query: part('query'),
    headers: part('header'),
    body,
    key: fc.oneof(
      { weight: 8, arbitrary: fc.constant('good' as const) },
      { weight: 1, arbitrary: fc.constantFrom('none' as const, 'bad' as const) },
    ),
    type: fc.oneof(
      { weight: 9, arbitrary: fc.constant(type ?? '') },
      {
        weight: 1,
        arbitrary: fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'multipart/form-data'),
      },
    ),
  });
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

async function send(operation: Operation, request: Generated): Promise<Answer | undefined> {
  const { apiKey } = account;
  const base = /^\/(files|streams)\//.test(operation.path)
    ? new URL(account.api.baseUrl).origin
    : account.api.baseUrl;
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const text = textOf(request.path[name]).toWellFormed();
    return operation.path.startsWith('/files/') ? encodeURI(text) : encodeURIComponent(text);
  });
  // Without a last part the path is that of another operation.
  if (path.endsWith('/')) return undefined;
  const url = new URL(base + path);
  // URL parsers remove path segments of dots, so this request would have another path.
  if (url.pathname !== new URL(base).pathname.replace(/\/$/, '') + path.replace(/\?.*/, '')) return undefined;
  for (const [name, value] of Object.entries(request.query)) {
    if (value !== undefined) url.searchParams.set(name, textOf(value).toWellFormed());
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    // Headers carry bytes, so other characters cannot be sent.
    if (value !== undefined) headers.set(name, textOf(value).replaceAll(/[^ -~\u00a0-\u00ff]/g, '?'));
  }
  if (request.key !== 'none')
    headers.set('authorization', `Bearer ${request.key === 'good' ? apiKey : 'sk_unknown'}`);
  let body: RequestInit['body'];
  if (request.body instanceof Uint8Array) {
    body = new Uint8Array(multipart([{ name: 'file', filename: 'a.png', body: request.body }]));
    headers.set('content-type', request.type === 'multipart/form-data' ? MULTIPART : request.type);
  } else if (request.body !== undefined) {
    body = JSON.stringify(request.body);
    headers.set('content-type', request.type);
  }
  const response = await fetch(url, { method: operation.method, headers, ...(body ? { body } : {}) });
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return { status: response.status, headers: response.headers, text: '', body: undefined };
  }
  return readAnswer(response);
}

const RUNS = 40;

describe('whatever is sent, the answer is one that the document has, and never a 500', () => {
  test('every operation', { timeout: 400_000 }, async () => {
    const seen = new Map<string, Set<number>>();
    for (const operation of contract.operations) {
      const statuses = new Set<number>();
      await fc.assert(
        fc.asyncProperty(requestsFor(operation), async (request) => {
          const failed = (answer: Answer | undefined) => answer !== undefined && isFailure(answer);
          const answer = await askFairly(() => send(operation, request), failed);
          if (!answer) return;
          const told = `${operation.method} ${operation.path}: ${answer.status} ${answer.text.slice(0, 200)}`;
          // When many requests want a slot, none may be free; that answer is not a failure.
          if (!/"capacity_\w+"/.test(answer.text)) expect(answer.status, told).toBeLessThan(500);
          expect(contract.faultsOf(operation, answer), told).toEqual([]);
          statuses.add(answer.status);
          if (answer.status === 200 && operation.path.endsWith('/session'))
            await endSession(answer.body as SessionRecord);
        }),
        { numRuns: RUNS, endOnFailure: true },
      );
      seen.set(operation.operationId, statuses);
    }
    // These operations must have answered 200, because a fuzzer that is always refused tests nothing.
    for (const id of [
      'getJob',
      'listJobs',
      'listReceipts',
      'readReceiptKeys',
      'followJob',
      'listVoices',
      'listSessions',
      'getBalance',
      'getPricing',
      'listUsage',
      'getUsageSummary',
      'getOpenapi',
    ]) {
      expect([...(seen.get(id) ?? [])], id).toContain(200);
    }
    expect([...(seen.get('submitPhotoSwap') ?? [])]).toEqual(expect.arrayContaining([400]));
  });
});

describe('answers of ordinary use are what the document says', () => {
  const operationOf = (id: string): Operation => {
    const found = contract.operations.find(({ operationId }) => operationId === id);
    if (!found) throw new Error(`no operation ${id}`);
    return found;
  };

  test('reads', async () => {
    const jobId = known.job_id?.[0];
    for (const [id, path] of [
      ['getJob', `/jobs/${jobId}`],
      ['listJobs', '/jobs'],
      ['listReceipts', '/receipts'],
      ['readReceiptKeys', '/receipts/keys'],
      ['listVoices', '/voices'],
      ['listSessions', '/sessions'],
      ['getBalance', '/balance'],
      ['getPricing', '/pricing'],
      ['listUsage', '/usage'],
      ['getUsageSummary', '/usage/summary'],
      ['getOpenapi', '/openapi.json'],
      ['readDocs', '/docs'],
    ] as const) {
      const answer = await account.api.get(path);
      expect(answer.status, path).toBe(200);
      expect(contract.faultsOf(operationOf(id), answer), path).toEqual([]);
    }
  });

  test('an upload, a submit, its repeat and refusals', async () => {
    const other = await stack.newAccount({ balanceUsd: 1 });
    const { api } = other;
    const uploaded = await api.multipart([{ name: 'file', filename: 'a.jpg', body: ADMIRAL.bytes }]);
    expect([uploaded.status, contract.faultsOf(operationOf('upload'), uploaded)]).toEqual([200, []]);
    const { file_key: image_key } = uploaded.body as { file_key: string };
    const submit = operationOf('submitPhotoSwap');
    const body = { image_key, face_key: image_key };
    const first = await api.post('/face-swap-image', body, { 'idempotency-key': 'contract' });
    const again = await api.post('/face-swap-image', body, { 'idempotency-key': 'contract' });
    expect([first.status, contract.faultsOf(submit, first)]).toEqual([200, []]);
    expect([again.headers.get('idempotent-replayed'), contract.faultsOf(submit, again)]).toEqual([
      'true',
      [],
    ]);
    const estimate = await api.post('/estimate', { capability: 'face-swap-image', ...body });
    expect(contract.faultsOf(operationOf('estimate'), estimate)).toEqual([]);
    const poor = await stack.newAccount({ balanceUsd: 0.01 });
    const key = await poor.api.upload(ADMIRAL);
    const refused = await poor.api.post('/face-swap-image', { image_key: key, face_key: key });
    expect([refused.status, contract.faultsOf(submit, refused)]).toEqual([402, []]);
  });

  test('a key that has sent too much', async () => {
    const { api } = await stack.newAccount({ perMinute: 1 });
    await api.get('/balance');
    const answer = await api.get('/balance');
    expect([answer.status, contract.faultsOf(operationOf('getBalance'), answer)]).toEqual([429, []]);
  });
});
