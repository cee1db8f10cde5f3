import type { Inspection } from '@semblance/proto/semblance/control/v1/control';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
  t.control.jobs.set('job-1', {
    id: 'job-1',
    status: 'failed',
    outputUrl: undefined,
    chargedMicros: 0n,
    error: { code: 'processing_failed', message: 'The job was cancelled.' },
  });
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.calls.length = 0;
});

type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };

async function post(path: string, init: Init = {}) {
  const headers = { ...t.auth, ...init.headers };
  const response = await fetch(t.base + path, { method: 'POST', ...init, headers });
  return { status: response.status, headers: response.headers, body: (await response.json()) as unknown };
}
const json = (value: unknown, headers = {}): Init => ({
  headers: { 'content-type': 'application/json', ...headers },
  body: typeof value === 'string' ? value : JSON.stringify(value),
});
const methods = () => t.control.calls.map(({ method }) => method);

describe('POST /jobs/{job_id}/cancel', () => {
  const chunked = (text: string): Init =>
    ({
      headers: { 'content-type': 'application/json' },
      body: new Blob([text]).stream(),
      duplex: 'half',
    }) as unknown as Init;

  it.each<[string, Init]>([
    ['no body', {}],
    ['an empty one', json('')],
    ['{}', json({})],
    ['fields nobody knows', json({ why: 'because' })],
    ['{} in chunks', chunked('{}')],
  ])('answers the job record: %s', async (_name, init) => {
    const { status, body, headers } = await post('/jobs/job-1/cancel', init);
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toBe(
      JSON.stringify({
        id: 'job-1',
        status: 'failed',
        output_url: null,
        charged_usd: 0,
        error: { code: 'processing_failed', message: 'The job was cancelled.' },
      }),
    );
    expect(headers.get('cache-control')).toBe('no-store');
    expect(methods()).toEqual(['cancelJob']);
  });

  it.each<[string, Init]>([
    ['an array', json([])],
    ['a string', json('"x"')],
    ['null', json('null')],
    ['malformed JSON', json('{')],
    ['another type', { headers: { 'content-type': 'text/plain' }, body: 'x' }],
  ])('refuses a body that is no object: %s', async (_name, init) => {
    const { status, body } = await post('/jobs/job-1/cancel', init);
    expect([status, body]).toMatchObject([400, { error: { code: 'invalid_input' } }]);
    expect(methods()).toEqual(['authorize']);
  });

  it('an id that no job can have is not_found, and so is one that is unknown', async () => {
    for (const id of ['job-none', 'x'.repeat(65), '%00', '%2e%2e']) {
      const { status, body } = await post(`/jobs/${id}/cancel`);
      expect([status, body], id).toMatchObject([404, { error: { code: 'not_found' } }]);
    }
  });

  it('only takes POST', async () => {
    const response = await fetch(`${t.base}/jobs/job-1/cancel`, { headers: t.auth });
    expect([response.status, response.headers.get('allow')]).toEqual([404, 'POST, OPTIONS']);
  });
});

describe('POST /estimate', () => {
  const PHOTO = { capability: 'face-swap-image', image_key: 'api/image', face_key: 'api/face' };

  it('answers what a submit would hold; an Idempotency-Key goes nowhere', async () => {
    const { status, body, headers } = await post('/estimate', json(PHOTO, { 'idempotency-key': 'k' }));
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toBe(
      JSON.stringify({
        capability: 'face-swap-image',
        feature: 'photo_swap',
        hold_usd: 0.06,
        rate_usd: 0.04,
        unit: 'image',
        minimum_usd: 0.02,
        balance_sufficient: true,
        cap_sufficient: true,
      }),
    );
    expect(headers.get('idempotent-replayed')).toBeNull();
    const { caller: _, ...request } = (t.control.calls[0]?.request ?? {}) as Record<string, unknown>;
    expect(request).toEqual({
      capability: 'face-swap-image',
      inputs: { image: 'api/image', face: 'api/face' },
      parameters: {},
      engineOptions: {},
      callbackUrl: undefined,
      inspect: false,
    });
  });

  const HINT = { code: 'face_small', message: 'Small.', input: 'face_key' };
  const REFUSED = { code: 'face_not_detected', message: 'No face.' };
  const BUSY = { reason: 'busy', message: 'All are busy.' };
  const FACES = { found: 1, changed: 0, left: [{ reason: 'not_a_person', count: 1 }] };

  it.each<[string, Inspection | undefined, object]>([
    [
      'what was found',
      {
        outcome: {
          $case: 'inspected',
          value: { details: { hints: [HINT], models: [], options: {}, mapped: [] } },
        },
      },
      { inspection: { status: 'inspected' }, details: { hints: [HINT] } },
    ],
    [
      'that nothing was found out',
      { outcome: { $case: 'inspected', value: { details: undefined } } },
      { inspection: { status: 'inspected' } },
    ],
    [
      'that the render would fail',
      {
        outcome: {
          $case: 'refused',
          value: {
            error: REFUSED,
            details: { faces: FACES, hints: [], models: [], options: {}, mapped: [] },
          },
        },
      },
      { inspection: { status: 'refused', error: REFUSED }, details: { faces: FACES, hints: [] } },
    ],
    [
      'that nothing was looked at',
      { outcome: { $case: 'notInspected', value: BUSY } },
      { inspection: { status: 'not_inspected', ...BUSY } },
    ],
    [
      'that nothing was looked at, by a control plane of an earlier release',
      undefined,
      { inspection: { status: 'not_inspected', reason: 'failed', message: 'The inspection did not work.' } },
    ],
  ])('with `inspect` tells %s after the estimate', async (_what, inspection, fields) => {
    const plain = await post('/estimate', json(PHOTO));
    t.control.inspection = inspection;
    const { status, body } = await post('/estimate', json({ ...PHOTO, inspect: true }));
    t.control.inspection = undefined;
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toBe(JSON.stringify({ ...(plain.body as object), ...fields }));
    expect(t.control.calls.at(-1)?.request).toMatchObject({ inspect: true });
  });

  it.each([false, null])('without an inspection is the same for %s', async (inspect) => {
    const plain = await post('/estimate', json(PHOTO));
    expect((await post('/estimate', json({ ...PHOTO, inspect }))).body).toEqual(plain.body);
    expect(t.control.calls.at(-1)?.request).toMatchObject({ inspect: false });
  });

  it('is cancelled when its client leaves', async () => {
    const pause = Promise.withResolvers<void>();
    t.control.pauses.set('estimateJob', pause.promise);
    const gone = new AbortController();
    const headers = { 'request-id': 'leaves' };
    const asked = post('/estimate', { ...json({ ...PHOTO, inspect: true }, headers), signal: gone.signal });
    await expect.poll(() => methods()).toEqual(['estimateJob']);
    gone.abort();
    await expect(asked).rejects.toThrow();
    await expect.poll(() => t.control.cancelled).toContain('leaves');
    t.control.pauses.delete('estimateJob');
    pause.resolve();
  });

  it('takes the parameters of the capability, checked as a submit checks them', async () => {
    const avatar = { capability: 'avatar', image_key: 'api/i', script: 'Hello', output_resolution_p: 480 };
    expect((await post('/estimate', json(avatar))).status).toBe(200);
    expect(t.control.calls[0]?.request).toMatchObject({
      parameters: { script: 'Hello', output_resolution_p: '480' },
    });
  });

  it.each<[unknown, string]>([
    [{ ...PHOTO, capability: undefined }, 'capability is required'],
    [{ ...PHOTO, capability: 'voice' }, 'capability must be one of character-swap'],
    [{ ...PHOTO, capability: 'mind-swap' }, 'capability must be one of'],
    [{ ...PHOTO, capability: 'constructor' }, 'capability must be one of'],
    [{ ...PHOTO, capability: 7 }, 'capability must be one of'],
    [{ ...PHOTO, capability: ['face-swap-image'] }, 'capability must be one of'],
    [{ ...PHOTO, image_key: 'x' }, 'image_key must be a file_key'],
    [{ capability: 'face-swap-image' }, 'image_key is required; face_key is required'],
    [{ ...PHOTO, capability: 'face-swap' }, 'video_key is required'],
    [{ ...PHOTO, callback_url: 'nowhere' }, 'callback_url must be an absolute'],
    [{ ...PHOTO, inspect: 'yes' }, 'inspect must be true or false'],
    [{ ...PHOTO, inspect: 1 }, 'inspect must be true or false'],
    [[], 'The body must be a JSON object'],
    ['', 'The body must be'],
    ['null', 'The body must be a JSON object'],
  ])('%j is invalid_input, and counts as a call', async (body, message) => {
    const answer = await post('/estimate', json(body));
    expect(answer.body).toEqual({
      error: { code: 'invalid_input', message: expect.stringContaining(message) },
    });
    expect(answer.status).toBe(400);
    expect(methods()).toEqual(['authorize']);
  });
});
