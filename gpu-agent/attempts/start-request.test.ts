import { StartAttemptRequest } from '@semblance/proto/semblance/agent/v1/agent';
import { describe, expect, it } from 'vitest';
import { MAX_INPUT_BYTES, MalformedRequestError, parseRef, parseStart } from './start-request.ts';

const URL_ = 'http://127.0.0.1:1/x?sig=secret';
const good = () =>
  StartAttemptRequest.fromPartial({
    ref: { jobUid: '4f1c-aa', attempt: 1 },
    incarnation: 'x',
    capability: 'face-swap-image',
    inputs: { image: { url: URL_, maxBytes: 10n }, face: { url: URL_ } },
    sinks: [{ contentType: 'image/png', url: URL_, headers: { 'x-amz-meta': 'a' }, key: 'out/1.png' }],
    deadlineSeconds: 60,
    // The definition of RenderJobs allows this name.
    parameters: { [`seed_2${'x'.repeat(58)}`]: '1' },
  });

describe('parseStart', () => {
  it('takes a well-formed request; no limit means the agent’s own', () => {
    const work = parseStart(good());
    expect(work.inputs).toEqual([
      { role: 'image', url: URL_, maxBytes: 10 },
      { role: 'face', url: URL_, maxBytes: MAX_INPUT_BYTES },
    ]);
    expect(work.deadlineMs).toBe(60_000);
  });

  it('takes further pictures of a face', () => {
    const link = { url: URL_, maxBytes: 0n };
    const inputs = { ...good().inputs, face_2: link, face_8: link };
    expect(parseStart({ ...good(), inputs }).inputs.map(({ role }) => role)).toEqual([
      ...['image', 'face', 'face_2', 'face_8'],
    ]);
    for (const wrong of ['face_9', 'face_1', 'face_02'])
      expect(() => parseStart({ ...good(), inputs: { ...good().inputs, [wrong]: link } })).toThrow(/exactly/);
    const avatar = { capability: 'avatar', inputs: { image: link, face_2: link } };
    expect(() => parseStart({ ...good(), ...avatar })).toThrow('avatar takes exactly the inputs image');
  });

  it('takes no deadline as none, and no more bytes than its own limit', () => {
    const request = { ...good(), deadlineSeconds: 0 };
    request.inputs.image = { url: URL_, maxBytes: 2n ** 62n };
    expect(parseStart(request).deadlineMs).toBeUndefined();
    expect(parseStart(request).inputs[0]?.maxBytes).toBe(MAX_INPUT_BYTES);
  });

  const sink = good().sinks[0] as NonNullable<ReturnType<typeof good>['sinks'][0]>;
  it.each<[string, Partial<StartAttemptRequest>, RegExp]>([
    ['no ref', { ref: undefined }, /ref is missing/],
    ['an empty uid', { ref: { jobUid: '', attempt: 1 } }, /job_uid/],
    ['a uid that is a path', { ref: { jobUid: '../../etc', attempt: 1 } }, /job_uid/],
    ['attempt 0', { ref: { jobUid: 'a', attempt: 0 } }, /attempt/],
    ['an unknown capability', { capability: 'constructor' }, /capability/],
    ['a session’s capability', { capability: 'voice' }, /capability/],
    [
      'a missing input',
      { inputs: { image: { url: URL_, maxBytes: 0n } } },
      /exactly the inputs image and face/,
    ],
    ['another input', { inputs: { ...good().inputs, mask: { url: URL_, maxBytes: 0n } } }, /exactly/],
    [
      'a file URL',
      { inputs: { ...good().inputs, face: { url: 'file:///etc/passwd', maxBytes: 0n } } },
      /file:/,
    ],
    ['no URL', { inputs: { ...good().inputs, face: { url: 'nonsense', maxBytes: 0n } } }, /not a URL/],
    ['a negative limit', { inputs: { ...good().inputs, face: { url: URL_, maxBytes: -1n } } }, /negative/],
    ['no sinks', { sinks: [] }, /sinks/],
    ['a sink without a key', { sinks: [{ ...sink, key: '' }] }, /key/],
    ['a header that ends early', { sinks: [{ ...sink, headers: { a: 'b\r\nc: d' } }] }, /malformed header/],
    ['a header of ours', { sinks: [{ ...sink, headers: { 'Content-Length': '5' } }] }, /Content-Length/],
    ['a negative deadline', { deadlineSeconds: -1 }, /deadline/],
    ['a huge parameter', { parameters: { script: 'x'.repeat(50_000) } }, /too long/],
    ['a parameter by another name', { parameters: { 'Seed-2': '1' } }, /parameter is malformed: "Seed-2"/],
  ])('refuses %s without repeating the link', (_what, change, message) => {
    const act = () => parseStart({ ...good(), ...change });
    expect(act).toThrow(MalformedRequestError);
    expect(act).toThrow(message);
    expect(act).not.toThrow(/secret/);
  });
});

it('parseRef takes what names an attempt', () => {
  expect(parseRef({ jobUid: 'a', attempt: 7 })).toEqual({ jobUid: 'a', attempt: 7 });
});
