import { connect } from 'node:net';
import { ApiError } from '@semblance/common/errors';
import {
  parseRaw,
  sendRaw,
  startTestGateway,
  type TestGateway,
} from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.submits.length = 0;
  t.control.calls.length = 0;
  t.control.failures.clear();
});

const VALID = { image_key: 'api/image', face_key: 'api/face' };

function submit(body: unknown, headers: Record<string, string> = {}, path = '/face-swap-image') {
  return fetch(t.base + path, {
    method: 'POST',
    headers: { ...t.auth, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
  });
}

async function errorOf(response: Response) {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, ...error };
}

describe('POST /face-swap-image', () => {
  it('"answers with the same three fields (id, status, status_url)", HTTP 200', async () => {
    const response = await submit(
      { ...VALID, callback_url: 'https://example.com/hook' },
      { 'idempotency-key': 'k 1' },
    );
    expect(response.status).toBe(200);
    const body = (await response.json()) as Record<string, string>;
    expect(Object.keys(body)).toEqual(['id', 'status', 'status_url']);
    expect(body.status).toBe('queued');
    expect(body.status_url).toBe(`/api/v1/jobs/${body.id}`);
    const { caller: _, ...request } = t.control.submits[0] ?? {};
    expect(request).toEqual({
      requestId: response.headers.get('request-id'),
      capability: 'face-swap-image',
      inputs: { image: 'api/image', face: 'api/face' },
      parameters: {},
      engineOptions: {},
      callbackUrl: 'https://example.com/hook',
      idempotencyKey: 'k 1',
    });
  });

  it('hands options of the engine on as text, and takes null for none', async () => {
    const given = { seed: 7, strength: 0.25, sharp: true, look: 'film', large: 1e21 };
    expect((await submit({ ...VALID, engine_options: given })).status).toBe(200);
    expect(t.control.submits[0]?.engineOptions).toEqual({
      ...{ seed: '7', strength: '0.25', sharp: 'true', look: 'film', large: '1e+21' },
    });
    for (const none of [null, {}])
      expect((await submit({ ...VALID, engine_options: none })).status).toBe(200);
    expect(t.control.submits.slice(1).map(({ engineOptions }) => engineOptions)).toEqual([{}, {}]);
  });

  it.each([
    ['a text', 'seed=7', 'engine_options must be an object'],
    ['a list', [1], 'engine_options must be an object'],
    ['null for a value', { seed: null }, 'engine_options.seed must be a string, a number or a boolean'],
    ['an object for a value', { seed: {} }, 'engine_options.seed must be a string, a number or a boolean'],
    ['a name of upper case', { Seed: 1 }, 'engine_options has a name that no option has'],
    ['a name beyond all measure', { ['s'.repeat(65)]: 1 }, 'engine_options has a name that no option has'],
    ['an inherited name', { __proto: 1 }, 'engine_options has a name that no option has'],
    ['a NUL', { note: 'a\0' }, 'engine_options.note must be well-formed'],
    ['a text beyond all measure', { note: 'x'.repeat(2_001) }, 'engine_options.note must be at most 2000'],
    [
      'too many',
      Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`o${i}`, 1])),
      'engine_options must have at most 16 options',
    ],
  ])('refuses engine_options with %s', async (_what, given, message) => {
    const response = await submit({ ...VALID, engine_options: given });
    expect(await errorOf(response)).toMatchObject({
      ...{ status: 400, code: 'invalid_input', message: expect.stringContaining(message) },
    });
    expect(t.control.submits).toEqual([]);
  });

  it('takes up to eight pictures of a person in place of one', async () => {
    const face_keys = Array.from({ length: 8 }, (_, i) => `api/f${i + 1}`);
    const { image_key } = VALID;
    for (const body of [
      { image_key, face_keys },
      { image_key, face_key: null, face_keys: ['api/f1'] },
    ])
      expect((await submit(body)).status).toBe(200);
    const [all, one] = t.control.submits.map(({ inputs }) => inputs);
    expect(all).toEqual({
      ...{ image: 'api/image', face: 'api/f1', face_2: 'api/f2', face_3: 'api/f3', face_4: 'api/f4' },
      ...{ face_5: 'api/f5', face_6: 'api/f6', face_7: 'api/f7', face_8: 'api/f8' },
    });
    expect(one).toEqual({ image: 'api/image', face: 'api/f1' });
  });

  it.each([
    ['beside face_key', { ...VALID, face_keys: ['api/f'] }, 'face_keys and face_key exclude each other'],
    ['that are none', { image_key: 'api/a', face_keys: [] }, 'face_keys must name at least one picture'],
    [
      'that are nine',
      { image_key: 'api/a', face_keys: Array(9).fill('api/f') },
      'face_keys must name at most 8',
    ],
    ['that are a key', { image_key: 'api/a', face_keys: 'api/f' }, 'face_keys must be a list of file_keys'],
    [
      'with a URL',
      { image_key: 'api/a', face_keys: ['api/f', 'http://x/y'] },
      'face_keys.1 must be a file_key',
    ],
    ['with null', { image_key: 'api/a', face_keys: [null] }, 'face_keys.0 must be a file_key'],
    [
      'and another fault',
      { face_keys: [] },
      'image_key is required; face_keys must name at least one picture',
    ],
  ])('refuses face_keys %s', async (_what, body, message) => {
    expect(await errorOf(await submit(body))).toMatchObject({
      ...{ status: 400, code: 'invalid_input', message: expect.stringContaining(message) },
    });
    expect(t.control.submits).toEqual([]);
  });

  it('asks the control plane once', async () => {
    await submit(VALID);
    expect(t.control.calls.map(({ method }) => method)).toEqual(['submitJob']);
  });

  it('sends a submit with a callback by itself, so that no other waits until its host is resolved', async () => {
    const before = t.control.submitMessages;
    expect((await submit({ ...VALID, callback_url: 'https://slow.example.com/hook' })).status).toBe(200);
    expect([t.control.submits.length, t.control.submitMessages - before]).toEqual([1, 0]);
    expect((await submit(VALID)).status).toBe(200);
    expect([t.control.submits.length, t.control.submitMessages - before]).toEqual([2, 1]);
  });

  it('ignores fields it does not know, and takes null for an optional field as left out', async () => {
    expect((await submit({ ...VALID, future: [1], callback_url: null })).status).toBe(200);
    expect(t.control.submits[0]?.callbackUrl).toBeUndefined();
  });

  it.each([
    ['a field missing', { image_key: 'api/a' }, 'face_key is required'],
    ['all missing', {}, 'image_key is required; face_key is required'],
    ['null for a required one', { ...VALID, image_key: null }, 'image_key must be a file_key'],
    ['a number', { ...VALID, image_key: 7 }, 'image_key must be a file_key'],
    ['an object', { ...VALID, face_key: {} }, 'face_key must be a file_key'],
    ['an array', { ...VALID, face_key: ['api/x'] }, 'face_key must be a file_key'],
    ['an empty key', { ...VALID, image_key: '' }, 'image_key must be a file_key'],
    ['a URL', { ...VALID, image_key: 'https://example.com/x.png' }, 'beginning with "api/"'],
    ['another prefix', { ...VALID, image_key: 'outputs/x' }, 'beginning with "api/"'],
    ['the prefix in capitals', { ...VALID, image_key: 'API/x' }, 'beginning with "api/"'],
    [
      'a key with a way out',
      { ...VALID, image_key: 'api/../outputs/x' },
      'exactly as POST /uploads answered',
    ],
    ['a key with NUL', { ...VALID, image_key: 'api/x\0' }, 'exactly as POST /uploads answered'],
    [
      'a key too long',
      { ...VALID, image_key: `api/${'x'.repeat(9000)}` },
      'exactly as POST /uploads answered',
    ],
    ['a callback that is no string', { ...VALID, callback_url: 1 }, 'callback_url must be a string'],
    [
      'a callback that is no URL',
      { ...VALID, callback_url: 'nowhere' },
      'callback_url must be an absolute http or https URL',
    ],
    ['a callback to a file', { ...VALID, callback_url: 'file:///etc/passwd' }, 'absolute http or https URL'],
    [
      'a callback with credentials',
      { ...VALID, callback_url: 'https://a:b@example.com' },
      'user name or password',
    ],
    ['a callback too long', { ...VALID, callback_url: `https://x.y/${'z'.repeat(3000)}` }, 'at most 2048'],
  ])('"Any field failing validation yields invalid_input (400)": %s', async (_name, body, message) => {
    const error = await errorOf(await submit(body));
    expect(error).toMatchObject({ status: 400, code: 'invalid_input' });
    expect(error.message).toContain(message);
    expect(t.control.submits).toEqual([]);
  });

  it('"A malformed key … is rejected at submit with invalid_input (400) and no job is queued"', async () => {
    expect(await errorOf(await submit({ ...VALID, face_key: 'x/face' }))).toMatchObject({
      status: 400,
      code: 'invalid_input',
    });
    expect(t.control.submits).toEqual([]);
  });

  it.each<[string, unknown]>([
    ['malformed JSON', '{"image_key": '],
    ['nothing', ''],
    ['a string', '"x"'],
    ['a number', '1'],
    ['null', 'null'],
    ['an array', '[]'],
    ['two documents', '{}{}'],
    ['a prototype', '{"__proto__": {"image_key": "api/x"}, "face_key": "api/y"}'],
    ['bytes that are no text', new Uint8Array([0xff, 0xfe, 0x00, 0x7b])],
    ['too much', `{"image_key": "${'x'.repeat(300_000)}"}`],
    ['very deep', '['.repeat(100_000)],
  ])('a body that is not an object is invalid_input: %s', async (_name, body) => {
    expect(await errorOf(await submit(body))).toMatchObject({ status: 400, code: 'invalid_input' });
    expect(t.control.submits).toEqual([]);
  });

  it.each([
    ['text/plain', {}],
    ['application/x-www-form-urlencoded', {}],
    ['multipart/form-data; boundary=x', {}],
    ['', {}],
    ['application/json', { 'content-encoding': 'gzip' }],
    ['application/json', { 'content-encoding': 'br' }],
    ['application/json', { 'content-encoding': 'deflate' }],
    ['application/json', { 'content-encoding': 'nonsense' }],
  ])('Content-Type %o with %o is invalid_input', async (type, headers) => {
    const response = await submit(JSON.stringify(VALID), { 'content-type': type, ...headers });
    expect(await errorOf(response)).toMatchObject({ status: 400, code: 'invalid_input' });
  });

  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'application/vnd.api+json',
    'application/vnd.acme+json',
    'application/problem+json; charset=utf-8',
    'application/json-patch+json',
    'application/csp-report+json',
  ])('takes JSON named %s', async (type) => {
    expect((await submit(VALID, { 'content-type': type })).status).toBe(200);
    expect(t.control.submits[0]?.inputs).toEqual({ image: 'api/image', face: 'api/face' });
  });

  it.each(['application/jsonp', 'application/xml', 'text/json'])('does not take %s', async (type) => {
    expect(await errorOf(await submit(VALID, { 'content-type': type }))).toMatchObject({
      status: 400,
      code: 'invalid_input',
    });
    expect(t.control.submits).toEqual([]);
  });

  it.each(['', 'x'.repeat(256), 'caf\u00e9', 'a\tb'])('Idempotency-Key %j is invalid_input', async (key) => {
    const raw = `POST /api/v1/face-swap-image HTTP/1.1\r\nHost: x\r\nAuthorization: ${t.auth.authorization}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nIdempotency-Key: ${key}\r\n\r\n{}`;
    const answer = parseRaw(await sendRaw(t.port, raw, 100));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'invalid_input' } });
  });

  it('says when the answer is that of an earlier request', async () => {
    t.control.replay = true;
    const again = await submit(VALID, { 'idempotency-key': 'k' });
    t.control.replay = false;
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await submit(VALID)).headers.get('idempotent-replayed')).toBeNull();
  });

  it.each([
    ['insufficient_balance', 402],
    ['capability_unavailable', 400],
    ['invalid_input', 400],
    ['at_capacity', 429],
    ['rate_limited', 429],
  ] as const)('passes the refusal %s on as %i', async (code, status) => {
    t.control.failures.set('submitJob', new ApiError(code, 'Because.'));
    expect(await errorOf(await submit(VALID))).toEqual({ status, code, message: 'Because.' });
  });

  it('submits that come together are answered one by one, each with what it was for', async () => {
    const keys = Array.from({ length: 100 }, (_, i) => `k-${i}`);
    const answers = await Promise.all(
      keys.map(async (key) => {
        const response = await submit({ ...VALID, image_key: `api/${key}` }, { 'request-id': key });
        const { id } = (await response.json()) as { id: string };
        return { status: response.status, id };
      }),
    );
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(100);
    expect(t.control.submits.map(({ requestId, inputs }) => inputs.image === `api/${requestId}`)).toEqual(
      Array(100).fill(true),
    );
  });

  it('a wrong key is unauthorized even where the body is wrong too, and a wrong body is counted', async () => {
    expect(await errorOf(await submit('{', { authorization: 'Bearer wrong' }))).toMatchObject({
      status: 401,
    });
    const refused = await submit('{');
    expect(refused.headers.get('ratelimit-remaining')).toBe('59');
    expect(t.control.count('authorize')).toBe(1);
  });

  it('a body that does not come is given up', async () => {
    const head = `POST /api/v1/face-swap-image HTTP/1.1\r\nHost: x\r\nAuthorization: ${t.auth.authorization}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{`;
    const own = await startTestGateway({ timing: { body: 400 } });
    const answer = parseRaw(await sendRaw(own.port, head));
    expect(answer.status).toBe(400);
    expect(answer.body).toMatch(/did not arrive within/);
    await own.close();
  });

  it('a client that leaves is nobody to answer', async () => {
    const head = `POST /api/v1/face-swap-image HTTP/1.1\r\nHost: x\r\nRequest-Id: leaver\r\nAuthorization: ${t.auth.authorization}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{`;
    const socket = connect(t.port, '127.0.0.1');
    socket.write(head);
    // A client that leaves before its request was read is not logged.
    await expect.poll(() => t.registry.metrics()).toMatch(/requests_in_flight 1\n/);
    socket.destroy();
    // Selected by id, because lines of earlier requests may still arrive.
    const ofIt = () =>
      t.logLines.map((line) => JSON.parse(line)).filter(({ requestId }) => requestId === 'leaver');
    await expect.poll(ofIt).toHaveLength(1);
    expect(ofIt()[0]).toMatchObject({ level: 'info', aborted: true });
  });
});

describe('the other job submits', () => {
  const key = (name: string) => ({ [name]: `api/${name}` });
  it.each([
    [
      'character-swap',
      { ...key('video_key'), ...key('character_key') },
      { video: 'api/video_key', character: 'api/character_key' },
      { resolution: '1k' },
    ],
    [
      'character-swap',
      { ...key('video_key'), ...key('character_key'), resolution: '2k' },
      undefined,
      { resolution: '2k' },
    ],
    [
      'face-swap',
      { ...key('video_key'), ...key('face_key') },
      { video: 'api/video_key', face: 'api/face_key' },
      {},
    ],
    [
      'face-swap',
      { ...key('video_key'), ...key('face_key'), output_resolution_p: 720 },
      undefined,
      { output_resolution_p: '720' },
    ],
    [
      'motion-control',
      { ...key('image_key'), ...key('motion_video_key') },
      { image: 'api/image_key', motion_video: 'api/motion_video_key' },
      {},
    ],
    ['avatar', { ...key('image_key'), script: 'Hello' }, { image: 'api/image_key' }, { script: 'Hello' }],
    [
      'avatar',
      {
        ...key('image_key'),
        script: '\u{1f600}'.repeat(5000),
        voice_id: 'v',
        language: 'en',
        output_resolution_p: 1080,
      },
      undefined,
      { script: '\u{1f600}'.repeat(5000), voice_id: 'v', language: 'en', output_resolution_p: '1080' },
    ],
    [
      'avatar',
      { ...key('image_key'), script: 'Hello', voice: { gender: 'female' } },
      undefined,
      { script: 'Hello', voice_gender: 'female' },
    ],
    [
      'avatar',
      { ...key('image_key'), script: 'Hello', voice: null, voice_id: 'slt' },
      undefined,
      { script: 'Hello', voice_id: 'slt' },
    ],
    [
      'lip-sync',
      { ...key('video_key'), ...key('audio_key'), output_resolution_p: 480 },
      { video: 'api/video_key', audio: 'api/audio_key' },
      { output_resolution_p: '480' },
    ],
  ])('%s passes its fields on', async (capability, body, inputs, parameters) => {
    const response = await submit(body, {}, `/${capability}`);
    expect(response.status).toBe(200);
    expect(t.control.submits[0]).toMatchObject({ capability, parameters, ...(inputs ? { inputs } : {}) });
    expect(Object.keys(t.control.submits[0]?.parameters ?? {})).toEqual(Object.keys(parameters));
  });

  const avatar = { ...key('image_key'), script: 'Hello' };
  const faceSwap = { ...key('video_key'), ...key('face_key') };
  it.each([
    ['avatar', { ...avatar, script: 'x'.repeat(5001) }, 'script must be at most 5,000 characters'],
    ['avatar', { ...avatar, script: '' }, 'script must not be empty'],
    ['avatar', { ...avatar, script: ' \n ' }, 'script must not be empty'],
    ['avatar', { ...avatar, script: undefined }, 'script is required'],
    ['avatar', { ...avatar, script: 'a\0b' }, 'script must be well-formed Unicode text'],
    ['avatar', { ...avatar, voice_id: 5 }, 'voice_id must be a string'],
    ['avatar', { ...avatar, voice: 'female' }, 'voice must be an object with a gender'],
    ['avatar', { ...avatar, voice: {} }, 'voice.gender'],
    ['avatar', { ...avatar, voice: { gender: 'Female' } }, 'voice.gender must be "female" or "male"'],
    ['avatar', { ...avatar, voice: ['male'] }, 'voice must be an object with a gender'],
    [
      'avatar',
      { ...avatar, voice: { gender: 'male' }, voice_id: 'slt' },
      'voice and voice_id exclude each other',
    ],
    ['avatar', { ...avatar, output_resolution_p: 721 }, 'output_resolution_p must be 480, 720 or 1080'],
    [
      'face-swap',
      { ...faceSwap, output_resolution_p: '720' },
      'output_resolution_p must be 480, 720 or 1080',
    ],
    ['face-swap', { ...faceSwap, output_resolution_p: 0 }, 'output_resolution_p must be 480, 720 or 1080'],
    ['lip-sync', { ...key('video_key'), audio_key: 'x' }, 'audio_key must be a file_key'],
    [
      'character-swap',
      { ...key('video_key'), ...key('character_key'), resolution: '4k' },
      'resolution must be "1k" or "2k"',
    ],
    ['motion-control', { ...key('image_key') }, 'motion_video_key is required'],
  ])('%s refuses %o', async (capability, body, message) => {
    const error = await errorOf(await submit(body, {}, `/${capability}`));
    expect(error).toMatchObject({ status: 400, code: 'invalid_input' });
    expect(error.message).toContain(message);
  });

  it('refuses half a character', async () => {
    const body = `{"image_key": "api/x", "script": "a\\ud83d"}`;
    expect((await errorOf(await submit(body, {}, '/avatar'))).message).toContain('well-formed');
  });
});
