import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CAPABILITIES } from '#common/capabilities.ts';
import { ApiError } from '#common/errors.ts';
import { startTestGateway, type TestGateway } from '../testing/test-gateway.ts';
import { SESSION_CAPABILITIES, type SessionCapability } from './open.ts';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.calls.length = 0;
  t.control.failures.clear();
  switches({ 'full-live-swap': false, voice: false });
});

/** What the control plane tells of the switches. */
function switches(enabled: Partial<Record<SessionCapability, boolean>>) {
  const capabilities = SESSION_CAPABILITIES.flatMap((capability) => {
    const on = enabled[capability];
    if (on === undefined) return [];
    const { feature, unit } = CAPABILITIES[capability];
    return [{ capability, feature, enabled: on, unit, rates: [], minimumMicros: 0n, hold: undefined }];
  });
  t.control.pricing = { ...t.control.pricing, capabilities };
}

type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };

async function post(path: string, init: Init = {}) {
  const headers = { ...t.auth, ...init.headers };
  const response = await fetch(t.base + path, { method: 'POST', ...init, headers });
  const body = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, headers: response.headers, ...body.error };
}
const json = (value: unknown, headers = {}): Init => ({
  headers: { 'content-type': 'application/json', ...headers },
  body: typeof value === 'string' ? value : JSON.stringify(value),
});
const methods = () => t.control.calls.map(({ method }) => method);

const OPENS: [SessionCapability, string, Record<string, unknown>][] = [
  ['full-live-swap', '/full-live-swap/session', { duration_minutes: 5 }],
  ['voice', '/voice/session', {}],
];

describe.each(OPENS)('POST /%s/session', (capability, path, good) => {
  it('is capability_unavailable (400) while the control plane’s switch is off or unknown to it', async () => {
    const asked = await post(path, json(good));
    expect([asked.status, asked.code]).toEqual([400, 'capability_unavailable']);
    expect(asked.message).toContain(CAPABILITIES[capability].title);
    expect(asked.headers.get('ratelimit-remaining')).toBe('59');
    switches({});
    expect((await post(path, json(good))).code).toBe('capability_unavailable');
    expect(methods(), 'one call each, which is counted once').toEqual(['getPricing', 'getPricing']);
  });

  it('goes by its own switch alone', async () => {
    switches({ 'full-live-swap': capability !== 'full-live-swap', voice: capability !== 'voice' });
    expect((await post(path, json(good))).code).toBe('capability_unavailable');
  });

  it('that is on is capacity_unavailable (502) "rather than returning a session that cannot carry" media', async () => {
    switches({ [capability]: true });
    const { status, code } = await post(path, json(good));
    expect([status, code]).toEqual([502, 'capacity_unavailable']);
  });

  it('"A missing, unknown or revoked key yields unauthorized", before anything else', async () => {
    for (const authorization of ['', 'Bearer', 'Basic dTpw', 'Bearer unknown']) {
      for (const init of [json('{', { authorization }), json(good, { authorization })]) {
        const { status, code } = await post(path, init);
        expect([status, code], authorization).toEqual([401, 'unauthorized']);
      }
    }
  });

  it('rate_limited comes before what is wrong with the request, and before the switch', async () => {
    const failure = new ApiError('rate_limited', 'Too fast.');
    for (const method of ['authorize', 'getPricing']) t.control.failures.set(method, failure);
    for (const body of ['{', good]) {
      const { status, code, headers } = await post(path, json(body));
      expect([status, code, headers.get('retry-after')]).toEqual([429, 'rate_limited', '32']);
    }
  });

  it('"Idempotency-Key does not apply": a good one, a bad one and a repeat change nothing', async () => {
    for (const key of ['k', 'k', 'x'.repeat(300)]) {
      const { code, headers } = await post(path, json(good, { 'idempotency-key': key }));
      expect([code, headers.get('idempotent-replayed')]).toEqual(['capability_unavailable', null]);
    }
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
    expect([response.status, response.headers.get('allow')]).toEqual([404, 'POST']);
  });

  it('a control plane that fails is internal_error (502), never an answer about the switch', async () => {
    t.control.failures.set('getPricing', new Error('broken'));
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
    expect((await post('/full-live-swap/session', json(body))).code).toBe('capability_unavailable');
  });

  it.each<[unknown, string]>([
    [{ duration_minutes: 0 }, `${MINUTES} 120`],
    [{ duration_minutes: 121 }, `${MINUTES} 120`],
    [{ duration_minutes: 1.5 }, MINUTES],
    [{ duration_minutes: '10' }, MINUTES],
    [{ duration_minutes: {} }, MINUTES],
    [{ voice_profile_id: 'nobody' }, 'voice_profile_id must be the id of a voice from GET /voices'],
    [{ voice_profile_id: '' }, 'voice_profile_id must be the id of a voice'],
    [{ voice_profile_id: 'constructor' }, 'voice_profile_id must be the id of a voice'],
    [{ voice_profile_id: 7 }, 'voice_profile_id must be a string'],
    [{ voice_profile_id: ['a'] }, 'voice_profile_id must be a string'],
  ])('of POST /voice/session, refused: case %#', async (body, message) => {
    const answer = await post('/voice/session', json(body));
    expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
    expect(answer.message).toContain(message);
    expect(answer.message).not.toContain('nobody');
  });

  it.each<[string, Init]>([
    ['no body', {}],
    ['an empty one', json('')],
    ['{}', json({})],
    ['1 minute', json({ duration_minutes: 1 })],
    ['120 minutes', json({ duration_minutes: 120 })],
    ['nulls', json({ duration_minutes: null, voice_profile_id: null })],
  ])('of POST /voice/session, taken: %s', async (_name, init) => {
    expect((await post('/voice/session', init)).code).toBe('capability_unavailable');
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
    expect(methods()).toEqual(['authorize']);
  });

  it('"A missing, unknown or revoked key yields unauthorized (401)"', async () => {
    for (const headers of [{}, { authorization: 'Bearer unknown' }])
      expect((await fetch(`${t.base}/voices`, { headers })).status).toBe(401);
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
