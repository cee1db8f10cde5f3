import { ApiError } from '@semblance/common/errors';
import { DEFAULT_LIVE_PROMPT } from '@semblance/common/live-prompt';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SessionCapability } from './open.ts';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.calls.length = 0;
  t.control.failures.clear();
  t.control.live.voices = [];
});

type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };

async function post(path: string, init: Init = {}) {
  const headers = { ...t.auth, ...init.headers };
  const response = await fetch(t.base + path, { method: 'POST', ...init, headers });
  const body = (await response.json()) as Record<string, unknown> & {
    error?: { code: string; message: string };
  };
  const { code, message } = body.error ?? { code: undefined, message: '' };
  return { status: response.status, headers: response.headers, body, code, message };
}
const json = (value: unknown, headers = {}): Init => ({
  headers: { 'content-type': 'application/json', ...headers },
  body: typeof value === 'string' ? value : JSON.stringify(value),
});
const FAILURES = 'semblance_gateway_control_plane_failures_total';
const methods = () => t.control.calls.map(({ method }) => method);

const OPENS: [SessionCapability, string, Record<string, unknown>][] = [
  ['full-live-swap', '/full-live-swap/session', { duration_minutes: 5 }],
  ['voice', '/voice/session', {}],
];

describe.each(OPENS)('POST /%s/session', (capability, path, good) => {
  it('answers the session record, and asks the control plane once', async () => {
    const asked = await post(path, json(good));
    expect(asked.status).toBe(200);
    expect(asked.headers.get('ratelimit-remaining')).toBe('59');
    expect(asked.headers.get('cache-control')).toBe('no-store');
    expect(methods()).toEqual(['openSession']);
    const [id = '', opened] = [...t.control.live.sessions].at(-1) ?? [];
    expect(asked.body).toEqual({
      session_id: id,
      stream_url: `ws://gateway.test/streams/${id}`,
      session_token: opened?.token,
      ...(capability === 'full-live-swap' ? { prompt: DEFAULT_LIVE_PROMPT } : {}),
      max_duration_sec: capability === 'voice' ? 600 : 300,
      max_cost_usd: 0.6,
    });
    expect(opened?.request).toMatchObject({
      capability,
      durationMinutes: capability === 'voice' ? 10 : 5,
      prompt: capability === 'voice' ? '' : DEFAULT_LIVE_PROMPT,
      voiceId: undefined,
    });
  });

  it.each([
    ['capability_unavailable', 400],
    ['insufficient_balance', 402],
    ['invalid_input', 400],
    ['at_capacity', 429],
    ['capacity_unavailable', 502],
  ] as const)('is %s (%i) when the control plane says so', async (code, status) => {
    t.control.failures.set('openSession', new ApiError(code, 'Said the control plane.'));
    const asked = await post(path, json(good));
    expect([asked.status, asked.code, asked.message]).toEqual([status, code, 'Said the control plane.']);
    expect(asked.headers.get('retry-after')).toBe(code === 'at_capacity' ? '2' : null);
  });

  it('"Voice capacity is starting up": to Live Swap Pro it is not there yet', async () => {
    t.control.failures.set('openSession', new ApiError('capacity_warming', 'Starting.'));
    const { status, code } = await post(path, json(good));
    expect([status, code]).toEqual([
      502,
      capability === 'voice' ? 'capacity_warming' : 'capacity_unavailable',
    ]);
  });

  it('a log in which want of capacity is no error, and a control plane that fails is one', async () => {
    const levels = (id: string) =>
      t.logLines.map((line) => JSON.parse(line)).flatMap((line) => (line.requestId === id ? line.level : []));
    for (const code of ['capacity_unavailable', 'internal_error'] as const) {
      t.control.failures.set('openSession', new ApiError(code, 'm'));
      await post(path, json(good, { 'request-id': `${capability}-${code}` }));
    }
    await expect.poll(() => levels(`${capability}-internal_error`)).toEqual(['error', 'info']);
    expect(levels(`${capability}-capacity_unavailable`)).toEqual(['info']);
  });

  it('"A missing, unknown or revoked key yields unauthorized", before anything else', async () => {
    for (const authorization of ['', 'Bearer', 'Basic dTpw', 'Bearer unknown']) {
      for (const init of [json('{', { authorization }), json(good, { authorization })]) {
        const { status, code } = await post(path, init);
        expect([status, code], authorization).toEqual([401, 'unauthorized']);
      }
    }
  });

  it('rate_limited comes before what is wrong with the request', async () => {
    const failure = new ApiError('rate_limited', 'Too fast.');
    for (const method of ['authorize', 'openSession']) t.control.failures.set(method, failure);
    for (const body of ['{', good]) {
      const { status, code, headers } = await post(path, json(body));
      expect([status, code, headers.get('retry-after')]).toEqual([429, 'rate_limited', '32']);
    }
  });

  it('"Idempotency-Key does not apply": a good one, a bad one and a repeat change nothing', async () => {
    for (const key of ['k', 'k', 'x'.repeat(300)]) {
      const { status, headers } = await post(path, json(good, { 'idempotency-key': key }));
      expect([status, headers.get('idempotent-replayed')]).toEqual([200, null]);
    }
    expect(methods()).toEqual(['openSession', 'openSession', 'openSession']);
  });

  it.each<[string, Init]>([
    ['an array', json([])],
    ['a string', json('"x"')],
    ['null', json('null')],
    ['malformed JSON', json('{')],
    ['another type', { headers: { 'content-type': 'text/plain' }, body: '{}' }],
    ['over 256 KiB', json({ ...good, prompt: 'x'.repeat(300_000) })],
  ])('a body that is no JSON object is invalid_input, and counts: %s', async (_name, init) => {
    const { status, code } = await post(path, init);
    expect([status, code]).toEqual([400, 'invalid_input']);
    expect(methods()).toEqual(['authorize']);
  });

  it('only takes POST', async () => {
    const response = await fetch(t.base + path, { headers: t.auth });
    expect([response.status, response.headers.get('allow')]).toEqual([404, 'POST, OPTIONS']);
  });

  it('a client that goes away while the session is opened: the opening is called off, and nothing failed', async () => {
    const requestId = `${capability}-gone`;
    const failuresBefore = await t.registry.getSingleMetric(FAILURES)?.get();
    const waiting = Promise.withResolvers<void>();
    t.control.pauses.set('openSession', waiting.promise);
    const gone = new AbortController();
    const asking = post(path, { ...json(good, { 'request-id': requestId }), signal: gone.signal });
    await expect.poll(methods).toEqual(['openSession']);
    expect(t.control.cancelled).not.toContain(requestId);
    gone.abort();
    await expect(asking).rejects.toThrow();
    await expect.poll(() => t.control.cancelled).toContain(requestId);
    const lines = () =>
      t.logLines.map((line) => JSON.parse(line)).filter((line) => line.requestId === requestId);
    await expect.poll(lines).toMatchObject([{ level: 'info', aborted: true }]);
    t.control.pauses.clear();
    waiting.resolve();
    expect((await post(path, json(good))).status, 'others are served').toBe(200);
    expect(lines()).toHaveLength(1);
    expect(await t.registry.getSingleMetric(FAILURES)?.get()).toEqual(failuresBefore);
  });

  it('a control plane that fails is internal_error (502)', async () => {
    t.control.failures.set('openSession', new Error('broken'));
    const { status, code } = await post(path, json(good));
    expect([status, code]).toEqual([502, 'internal_error']);
  });
});

describe('the fields', () => {
  const MINUTES = 'duration_minutes must be a whole number from 1 to';

  it.each<[unknown, string]>([
    [{}, 'duration_minutes is required'],
    [{ duration_minutes: null }, MINUTES],
    [{ duration_minutes: 0, prompt: 5 }, `${MINUTES} 240; prompt must be a string.`],
    [{ duration_minutes: 241 }, `${MINUTES} 240`],
    [{ duration_minutes: -1 }, MINUTES],
    [{ duration_minutes: 1.5 }, MINUTES],
    ['{"duration_minutes": 1e400}', MINUTES],
    [{ duration_minutes: '10' }, MINUTES],
    [{ duration_minutes: true }, MINUTES],
    [{ duration_minutes: [10] }, MINUTES],
    [{ duration_minutes: 1, prompt: 'x'.repeat(2001) }, 'prompt must be at most 2,000 characters'],
    [{ duration_minutes: 1, prompt: '😀'.repeat(2001) }, 'prompt must be at most 2,000 characters'],
    [{ duration_minutes: 1, prompt: '  ' }, 'prompt must not be empty'],
    [{ duration_minutes: 1, prompt: 'a\0b' }, 'prompt must be well-formed'],
    ['{"duration_minutes": 1, "prompt": "\\ud83d"}', 'prompt must be well-formed'],
    [{ duration_minutes: 1, prompt: {} }, 'prompt must be a string'],
  ])('of POST /full-live-swap/session, refused: case %#', async (body, message) => {
    const answer = await post('/full-live-swap/session', json(body));
    expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
    expect(answer.message).toContain(message);
  });

  it.each<unknown>([
    { duration_minutes: 1 },
    { duration_minutes: 240, prompt: null },
    '{"duration_minutes": 10.0}',
    { duration_minutes: 1, prompt: 'x'.repeat(2000) },
    { duration_minutes: 1, prompt: '😀'.repeat(2000) },
    { duration_minutes: 1, later: 'field' },
  ])('of POST /full-live-swap/session, taken: case %#', async (body) => {
    const { status, body: record } = await post('/full-live-swap/session', json(body));
    expect(status).toBe(200);
    const { prompt } = (typeof body === 'string' ? JSON.parse(body) : body) as { prompt?: string | null };
    expect(record.prompt).toBe(prompt ?? DEFAULT_LIVE_PROMPT);
  });

  it.each<[unknown, string]>([
    [{ duration_minutes: 0 }, `${MINUTES} 120`],
    [{ duration_minutes: 121 }, `${MINUTES} 120`],
    [{ duration_minutes: 1.5 }, MINUTES],
    [{ duration_minutes: '10' }, MINUTES],
    [{ duration_minutes: {} }, MINUTES],
    [{ voice_profile_id: 'no body' }, 'voice_profile_id must be the id of a voice from GET /voices'],
    [{ voice_profile_id: '' }, 'voice_profile_id must be the id of a voice'],
    [{ voice_profile_id: 'a'.repeat(101) }, 'voice_profile_id must be the id of a voice'],
    [{ voice_profile_id: 7 }, 'voice_profile_id must be a string'],
    [{ voice_profile_id: ['a'] }, 'voice_profile_id must be a string'],
  ])('of POST /voice/session, refused: case %#', async (body, message) => {
    const answer = await post('/voice/session', json(body));
    expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
    expect(answer.message).toContain(message);
    expect(answer.message).not.toContain('no body');
  });

  it.each<[string, Init]>([
    ['no body', {}],
    ['an empty one', json('')],
    ['{}', json({})],
    ['1 minute', json({ duration_minutes: 1 })],
    ['120 minutes', json({ duration_minutes: 120 })],
    ['nulls', json({ duration_minutes: null, voice_profile_id: null })],
  ])('of POST /voice/session, taken: %s', async (_name, init) => {
    expect((await post('/voice/session', init)).status).toBe(200);
  });

  it('a voice goes along as it was named; which there are, the control plane knows', async () => {
    await post('/voice/session', json({ voice_profile_id: 'warm-baritone' }));
    const [, opened] = [...t.control.live.sessions].at(-1) ?? [];
    expect(opened?.request.voiceId).toBe('warm-baritone');
  });

  it('a body of POST /full-live-swap/session cannot be left out', async () => {
    expect((await post('/full-live-swap/session')).code).toBe('invalid_input');
  });
});

describe('GET /voices', () => {
  it('answers a JSON array, to who has a key', async () => {
    const response = await fetch(`${t.base}/voices`, { headers: t.auth });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(response.headers.get('ratelimit-remaining')).toBe('59');
    expect(await response.text()).toBe('[]');
    expect(methods()).toEqual(['listVoices']);
  });

  it('answers records of four fields', async () => {
    const previewUrl = 'https://example.com/files/voices/alto.wav?signature=x';
    t.control.live.voices = [{ id: 'alto', name: 'Alto', description: 'Low.', previewUrl }];
    const response = await fetch(`${t.base}/voices`, { headers: t.auth });
    expect(await response.json()).toEqual([
      { id: 'alto', name: 'Alto', description: 'Low.', preview_url: previewUrl },
    ]);
  });

  it('"A missing, unknown or revoked key yields unauthorized (401)"', async () => {
    for (const headers of [{}, { authorization: 'Bearer unknown' }])
      for (const query of ['', '?for=avatar'])
        expect((await fetch(`${t.base}/voices${query}`, { headers })).status).toBe(401);
  });

  it('answers with for=avatar those that agents announced', async () => {
    t.control.live.avatarVoices = [
      { id: 'slt', language: 'en-us', gender: 'female', variants: [] },
      { id: 'x/de', language: 'de', gender: undefined, variants: ['x/de+f1'] },
      { id: 'odd', language: 'en', gender: 'of a later release', variants: [] },
    ];
    const response = await fetch(`${t.base}/voices?for=avatar`, { headers: t.auth });
    expect(await response.json()).toEqual([
      {
        ...{ id: 'slt', name: 'slt', description: 'A female voice that speaks en-us.' },
        ...{ language: 'en-us', gender: 'female', variants: [] },
      },
      {
        ...{ id: 'x/de', name: 'x/de', description: 'A voice that speaks de.' },
        ...{ language: 'de', gender: null, variants: ['x/de+f1'] },
      },
      expect.objectContaining({ id: 'odd', gender: null }),
    ]);
    expect(methods()).toEqual(['listAvatarVoices']);
  });

  it('answers with for=voice what it answers without, and refuses anything else', async () => {
    expect((await fetch(`${t.base}/voices?for=voice`, { headers: t.auth })).status).toBe(200);
    expect(methods()).toEqual(['listVoices']);
    for (const query of ['for=', 'for=Avatar', 'for=lip-sync', 'for=avatar&for=voice']) {
      const response = await fetch(`${t.base}/voices?${query}`, { headers: t.auth });
      expect(response.status, query).toBe(400);
      expect(await response.json()).toMatchObject({ error: { code: 'invalid_input' } });
    }
  });
});

it('the document tells the defaults and the limits', async () => {
  const document = (await (await fetch(`${t.base}/openapi.json`)).json()) as {
    components: { schemas: Record<string, { properties: Record<string, object>; required?: string[] }> };
  };
  const { LiveSwapProOpen, VoiceSwapOpen } = document.components.schemas;
  expect(LiveSwapProOpen?.required).toEqual(['duration_minutes']);
  expect(LiveSwapProOpen?.properties.duration_minutes).toMatchObject({ minimum: 1, maximum: 240 });
  expect(LiveSwapProOpen?.properties.prompt).toMatchObject({ default: expect.stringMatching(/\w/) });
  expect(VoiceSwapOpen?.required).toBeUndefined();
  expect(VoiceSwapOpen?.properties.duration_minutes).toMatchObject({ default: 10 });
});
