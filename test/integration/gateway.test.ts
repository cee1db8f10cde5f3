/** The gateway in front of the real control plane, Postgres, NATS, Kubernetes API and object store, over real sockets. */
import { hash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { type Gateway, startGateway } from '@semblance/gateway/gateway';
import {
  makeAccount,
  startTestSystem,
  succeed,
  type TestSystem,
  untilRenderJob,
} from '@semblance/testkit/control-plane/control-plane';
import type { JobRecord } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT, wav } from '@semblance/testkit/stack/media';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let system: TestSystem;
let gateway: Gateway;
let base: string;
let account: Awaited<ReturnType<typeof makeAccount>>;

beforeAll(async () => {
  system = await startTestSystem();
  gateway = await startGateway({
    listen: { host: '127.0.0.1', port: 0 },
    controlAddress: `127.0.0.1:${system.plane.port}`,
    store: system.objects,
    logger: silentLogger(),
    registry: new Registry(),
    publicUrl: 'http://gateway.test',
    // Longer than any standstill of the machine.
    timing: { control: 30_000 },
  });
  base = `http://127.0.0.1:${gateway.port}/api/v1`;
  account = await makeAccount(system, 10);
});
afterAll(async () => {
  await gateway?.close();
  await system?.close();
});

const bearer = (apiKey = account.apiKey) => ({ authorization: `Bearer ${apiKey}` });
/** Replaces the address in links with that of this test's gateway, which has another port. */
const local = (url: string) => url.replace('http://127.0.0.1:1/', `http://127.0.0.1:${gateway.port}/`);

type Answer = JobRecord & Record<string, unknown>;

async function get(path: string, apiKey?: string) {
  const response = await fetch(base + path, { headers: bearer(apiKey) });
  const body = (await response.json()) as Answer;
  return { status: response.status, headers: response.headers, body };
}

async function upload(file: { filename: string; contentType?: string; bytes: Uint8Array }, apiKey?: string) {
  const form = new FormData();
  form.append('file', new Blob([Buffer.from(file.bytes)], { type: file.contentType ?? '' }), file.filename);
  const response = await fetch(`${base}/uploads`, { method: 'POST', headers: bearer(apiKey), body: form });
  return { status: response.status, body: (await response.json()) as { file_key: string; url: string } };
}

async function submit(body: unknown, headers: Record<string, string> = {}, path = '/face-swap-image') {
  const response = await fetch(base + path, {
    method: 'POST',
    headers: { ...bearer(), 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, string>,
  };
}

describe('a Photo Swap through gateway and control plane', () => {
  it('goes from upload to a settled charge', async () => {
    const [image, face] = [await upload(ADMIRAL), await upload(ASTRONAUT)];
    expect([image.status, face.status]).toEqual([200, 200]);
    const hosted = await fetch(local(face.body.url));
    expect(hash('sha256', Buffer.from(await hosted.arrayBuffer()))).toBe(hash('sha256', ASTRONAUT.bytes));

    const before = (await get('/balance')).body as unknown as Record<string, number>;
    const request = { image_key: image.body.file_key, face_key: face.body.file_key };
    const submitted = await submit(request, { 'idempotency-key': 'once' });
    expect(submitted).toMatchObject({ status: 200, body: { status: 'queued' } });
    const { id = '', status_url = '' } = submitted.body;
    expect(status_url).toBe(`/api/v1/jobs/${id}`);

    const again = await submit(request, { 'idempotency-key': 'once' });
    expect(again.body).toEqual(submitted.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const other = await submit({ ...request, face_key: request.image_key }, { 'idempotency-key': 'once' });
    expect(other).toMatchObject({ status: 400, body: { error: { code: 'invalid_input' } } });

    expect((await get(`/jobs/${id}`)).body).toEqual({
      id,
      status: 'queued',
      output_url: null,
      charged_usd: null,
      error: null,
    });

    await succeed(system, await untilRenderJob(system, id));
    const job = await eventually(
      'the job to be settled',
      async () => {
        const { body } = await get(`/jobs/${id}`);
        return body.charged_usd === null ? undefined : body;
      },
      { everyMs: 30 },
    );
    expect(job).toMatchObject({ status: 'succeeded', error: null });
    const charged = job.charged_usd ?? 0;
    expect(charged).toBeGreaterThan(0);
    expect(await (await fetch(local(job.output_url ?? ''))).text()).toBe('picture');
    const after = (await get('/balance')).body as unknown as Record<string, number>;
    expect(after.balance_usd).toBeCloseTo((before.balance_usd ?? 0) - charged, 6);
    expect(after.total_spent_usd).toBeCloseTo(charged, 6);
  });

  it('"Unknown job, or a job belonging to another account: not_found (404)", however reads are carried', async () => {
    const { body } = await upload(ADMIRAL);
    const { id } = (await submit({ image_key: body.file_key, face_key: body.file_key })).body;
    const stranger = await makeAccount(system);
    const answers = await Promise.all([
      get(`/jobs/${id}`),
      get(`/jobs/${id}`, stranger.apiKey),
      get(`/jobs/${id}`, 'sk_live_unknown'),
      get('/jobs/job-01jzzzzzzzzzzzzzzzzzzzzzzz'),
      get('/jobs/nonsense'),
      get(`/jobs/${id}`),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 401, 404, 404, 200]);
    expect(answers[0]?.body).toEqual(answers[5]?.body);
  });

  it.each([
    ['a key never given', 'api/01jzzzzzzzzzzzzzzzzzzzzzzz'],
    ['a kind that does not fit', 'audio'],
    ["another account's key", 'stranger'],
  ])('refuses %s with invalid_input, and holds nothing', async (_name, which) => {
    const good = (await upload(ADMIRAL)).body.file_key;
    const stranger = await makeAccount(system);
    const key =
      which === 'audio'
        ? (await upload(wav())).body.file_key
        : which === 'stranger'
          ? (await upload(ADMIRAL, stranger.apiKey)).body.file_key
          : which;
    const before = (await get('/balance')).body;
    const refused = await submit({ image_key: good, face_key: key });
    expect(refused).toMatchObject({ status: 400, body: { error: { code: 'invalid_input' } } });
    expect((await get('/balance')).body).toEqual(before);
  });

  it('a capability without an engine is capability_unavailable', async () => {
    const { file_key } = (await upload(ADMIRAL)).body;
    const refused = await submit({ image_key: file_key, script: 'Hello' }, {}, '/avatar');
    expect(refused).toMatchObject({ status: 400, body: { error: { code: 'capability_unavailable' } } });
  });

  it('a session: its answer is that of the switch and the engine in the control plane', async () => {
    const open = async () => {
      const { status, body } = await submit({ duration_minutes: 1 }, {}, '/voice/session');
      return [status, (body.error as unknown as { code: string }).code];
    };
    const set = (on: boolean, engine: boolean) =>
      system.database
        .fast`update capabilities set switched_on = ${on}, has_engine = ${engine} where name = 'voice'`;
    const [before, entries] = [(await get('/balance')).body, (await get('/usage')).body];
    expect(await open()).toEqual([400, 'capability_unavailable']);
    await set(false, true);
    expect(await open()).toEqual([400, 'capability_unavailable']);
    // No agent carries a stream yet, so a session could carry no sound.
    await set(true, true);
    expect(await open()).toEqual([502, 'capacity_unavailable']);
    await set(true, false);
    expect((await get('/balance')).body).toEqual(before);
    expect((await get('/usage')).body, 'no entry of it').toEqual(entries);
  });

  it('"Balance does not cover the estimated hold" is insufficient_balance (402)', async () => {
    const poor = await makeAccount(system, 0);
    const { file_key } = (await upload(ADMIRAL, poor.apiKey)).body;
    const refused = await submit({ image_key: file_key, face_key: file_key }, bearer(poor.apiKey));
    expect(refused).toMatchObject({ status: 402, body: { error: { code: 'insufficient_balance' } } });
  });
});

describe('the rate limit', () => {
  it('is exact over every kind of call, however many come at once', async () => {
    const limited = await makeAccount(system, 1, 20);
    const paths = ['/balance', '/jobs/job-01jzzzzzzzzzzzzzzzzzzzzzzz', '/pricing', '/jobs/nonsense'];
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => get(paths[i % paths.length] ?? '', limited.apiKey)),
    );
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(30);
    for (const { body, headers } of refused) {
      expect(body).toMatchObject({ error: { code: 'rate_limited' } });
      expect(headers.get('ratelimit-remaining')).toBe('0');
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    }
    const left = answers
      .filter(({ status }) => status !== 429)
      .map(({ headers }) => Number(headers.get('ratelimit-remaining')));
    expect(left.sort((a, b) => b - a)).toEqual([...Array(20).keys()].reverse());
  });

  it('counts a refused upload once', async () => {
    const limited = await makeAccount(system, 1, 20);
    const refused = await upload({ filename: 'x.png', bytes: Buffer.from('no picture') }, limited.apiKey);
    expect(refused).toMatchObject({ status: 400, body: { error: { code: 'unsupported_format' } } });
    expect((await get('/balance', limited.apiKey)).headers.get('ratelimit-remaining')).toBe('18');
  });
});

describe('uploads that come to nothing', () => {
  it('leave neither a reservation nor a file', async () => {
    const count = async () => {
      const [row] = await system.database.fast<
        { n: number }[]
      >`select count(*)::int as n from uploads where completed_at is null and abandoned_at is null`;
      return row?.n;
    };
    const files = async () =>
      (await readdir(system.folder, { recursive: true, withFileTypes: true })).filter((entry) =>
        entry.isFile(),
      ).length;
    const before = [await count(), await files()];
    await upload({ filename: 'x.png', bytes: Buffer.from('no picture') });
    await upload({ filename: 'x.tif', bytes: Buffer.from('II*\0') });
    const cut = await fetch(`${base}/uploads`, {
      method: 'POST',
      headers: { ...bearer(), 'content-type': 'multipart/form-data; boundary=b' },
      body: Buffer.concat([
        Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'),
        Buffer.from(ASTRONAUT.bytes),
      ]),
    });
    expect(cut.status).toBe(400);
    await eventually(
      'nothing to be left',
      async () => ((await count()) === before[0] && (await files()) === before[1] ? true : undefined),
      { everyMs: 30 },
    );
    expect(await readdir(join(system.folder, 'tmp'))).toEqual([]);
  });
});

describe('GET /pricing', () => {
  it('"Without a key the public rate card is returned. With a key, the caller\'s own"', async () => {
    const publicCard = (await (await fetch(`${base}/pricing`)).json()) as Record<string, unknown>;
    const own: Record<string, unknown> = (await get('/pricing')).body;
    for (const card of [publicCard, own]) {
      expect(Object.keys(card)).toEqual(['currency', 'version', 'effective_at', 'capabilities']);
      const photo = (card.capabilities as Record<string, unknown>[]).find(
        (c) => c.capability === 'face-swap-image',
      );
      expect(photo).toMatchObject({ feature: 'photo_swap', enabled: true, unit: 'image' });
      expect(Object.keys(photo ?? {})).toEqual([
        'capability',
        'feature',
        'enabled',
        'unit',
        'rates',
        'minimum_usd',
        'hold',
        'preview_usd',
      ]);
    }
  });
});
