import type { JobRecord, Upload } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import {
  ADMIRAL,
  ASTRONAUT,
  brokenJpeg,
  faceless,
  largePortrait,
  PROFESSOR,
} from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
}, 240_000);

const FIELDS = ['id', 'status', 'output_url', 'charged_usd', 'error'];
/** Shown of a job that succeeded, beyond the specification: what was seen in its pictures, and a small picture, and when its output ends. */
const ADDED = ['details', 'preview_url', 'expires_at'];
const ORDER = ['queued', 'processing', 'succeeded'];

async function submit(image: Upload, face: Upload): Promise<string> {
  const [image_key, face_key] = await Promise.all([account.api.upload(image), account.api.upload(face)]);
  return (await account.api.swap({ image_key, face_key })).id;
}

/** Polls the job until its charge is settled, and returns every record. */
async function life(id: string): Promise<JobRecord[]> {
  const seen: JobRecord[] = [];
  for (const deadline = Date.now() + 100_000; Date.now() < deadline; ) {
    const record = await account.api.job(id);
    seen.push(record);
    if (ORDER.indexOf(record.status) !== 0 && record.status !== 'processing' && record.charged_usd !== null) {
      return seen;
    }
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
  throw new Error(`job ${id} did not end: ${JSON.stringify(seen.at(-1))}`);
}

describe('Job record', () => {
  test('its fields and nulls over the whole life of a job that succeeds', async () => {
    const large = await largePortrait(2600);
    // On a busy machine the polling may miss `processing`; then another job is watched.
    let processing = false;
    for (let left = 5; left > 0 && !processing; left--) {
      const before = await account.api.balance();
      const id = await submit(large, ADMIRAL);
      const seen = await life(id);
      for (const record of seen) {
        const added = record.status === 'succeeded' ? ADDED : [];
        expect(Object.keys(record)).toEqual([...FIELDS, ...added]);
        expect(record.id).toBe(id);
        // `status`: `queued`, `processing`, `succeeded` or `failed`
        expect(ORDER).toContain(record.status);
        // `output_url`: null until the job succeeds
        if (record.status === 'succeeded') expect(record.output_url).toMatch(/^https?:\/\//);
        else expect(record.output_url).toBeNull();
        // `charged_usd`: null until billing has been reconciled
        if (record.status !== 'succeeded') expect(record.charged_usd).toBeNull();
        // `error`: present only on a failed job, otherwise null
        expect(record.error).toBeNull();
      }
      const places = seen.map(({ status }) => ORDER.indexOf(status));
      expect(places, 'a status never goes back').toEqual([...places].sort());
      const { charged_usd } = seen.at(-1) as JobRecord;
      expect(charged_usd).toBeGreaterThan(0);
      const after = await account.api.balance();
      expect(after.balance_usd).toBeCloseTo(before.balance_usd - (charged_usd ?? 0), 6);
      processing = seen.some(({ status }) => status === 'processing');
    }
    expect(processing, 'processing is seen').toBe(true);
  });

  test('`succeeded` is terminal: reading again later gives the same job', async () => {
    const id = await submit(ASTRONAUT, ADMIRAL);
    const first = await account.api.finished(id);
    const again = await account.api.job(id);
    expect({ ...again, output_url: '', preview_url: '' }).toEqual({
      ...first,
      output_url: '',
      preview_url: '',
    });
  });
});

describe('details: what was found out about the inputs', () => {
  const finished = async (image: Upload, face: Upload) => account.api.finished(await submit(image, face));
  const small = async (): Promise<Upload> => ({
    ...ASTRONAUT,
    bytes: await sharp(Buffer.from(ASTRONAUT.bytes)).resize(256).png().toBuffer(),
  });
  const several = async (): Promise<Upload> => {
    const portrait = Buffer.from(ASTRONAUT.bytes);
    const bytes = await sharp({ create: { width: 1024, height: 512, channels: 3, background: '#777' } })
      .composite([
        { input: portrait, left: 0, top: 0 },
        { input: portrait, left: 512, top: 0 },
      ])
      .png()
      .toBuffer();
    return { filename: 'several.png', contentType: 'image/png', bytes };
  };

  test('faces and hints, each with a code, words and the field of its input; the rest is as ever', async () => {
    const job = await finished(PROFESSOR, ADMIRAL);
    expect(job).toEqual({
      id: job.id,
      status: 'succeeded',
      output_url: expect.any(String),
      charged_usd: 0.04,
      error: null,
      details: {
        faces: { found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] },
        hints: expect.arrayContaining([
          {
            code: 'glasses',
            message: expect.stringMatching(/^The person in the face picture/),
            input: 'face_key',
          },
          {
            code: 'face_turned',
            message: expect.stringMatching(/turned by about \d+ degrees/),
            input: 'image_key',
          },
        ]),
      },
      preview_url: expect.stringMatching(/^https?:/),
      expires_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(await account.api.job(job.id)).toEqual(job);
  });

  test.each<[string, string, () => Promise<Upload>]>([
    ['turned', 'face_turned', async () => PROFESSOR],
    ['small', 'face_small', small],
    ['one of several', 'several_faces', several],
  ])('a face that is %s', async (_, code, face) => {
    const { details } = await finished(ADMIRAL, await face());
    expect(details?.faces).toEqual({ found: 1, changed: 1, left: [] });
    expect(details?.hints).toContainEqual({ code, message: expect.any(String), input: 'face_key' });
  });

  test('two good pictures give no hint', async () => {
    const { details } = await finished(ADMIRAL, ASTRONAUT);
    expect(details).toEqual({ faces: { found: 1, changed: 1, left: [] }, hints: [] });
  });
});

/** Paints over the nose and the lower lids of the astronaut. */
async function hidden(): Promise<Upload> {
  const input = { create: { width: 103, height: 48, channels: 3, background: '#3b6ea5' } } as const;
  const bytes = await sharp(Buffer.from(ASTRONAUT.bytes))
    .composite([{ input, left: 174, top: 97 }])
    .png()
    .toBuffer();
  return { filename: 'hidden.png', contentType: 'image/png', bytes };
}

describe('A job that fails costs nothing', () => {
  const GLASSES = { code: 'glasses', message: expect.any(String), input: 'face_key' };
  const COVERED = { code: 'face_covered', message: expect.any(String), input: 'image_key' };
  const failures: [string, string, RegExp, () => Promise<[Upload, Upload]>, object?][] = [
    [
      'no face in image_key',
      'face_not_detected',
      /\bimage(_key)?\b/,
      async () => [await faceless(), ADMIRAL],
      { faces: { found: 0, changed: 0, left: [] }, hints: [GLASSES] },
    ],
    [
      'no face in face_key',
      'face_not_detected',
      /\bface_key\b|\bface (picture|photo|image|input)\b/,
      async () => [ASTRONAUT, await faceless()],
      { hints: [] },
    ],
    [
      'a face in image_key that is hidden',
      'face_not_detected',
      /\bimage_key\b/,
      async () => [await hidden(), ADMIRAL],
      { faces: { found: 1, changed: 0, left: [{ reason: 'covered', count: 1 }] }, hints: [GLASSES, COVERED] },
    ],
    [
      'image_key cannot be decoded',
      'unsupported_format',
      /\bimage(_key)?\b/,
      async () => [brokenJpeg(), ADMIRAL],
    ],
    [
      'face_key cannot be decoded',
      'unsupported_format',
      /\bface(_key)?\b/,
      async () => [ASTRONAUT, brokenJpeg()],
    ],
    [
      'a picture cut in half',
      'unsupported_format',
      /./,
      async () => [{ ...ASTRONAUT, bytes: ASTRONAUT.bytes.subarray(0, 200_000) }, ADMIRAL],
    ],
    ['more pixels than are taken', 'input_too_large', /./, async () => [await tooManyPixels(), ADMIRAL]],
  ];

  test.each(failures)('%s: `%s`', async (_name, code, message, inputs, details) => {
    const before = await account.api.balance();
    const id = await submit(...(await inputs()));
    const job = await account.api.finished(id);
    // `charged_usd` settles at 0, `error` has exactly `code` and `message`
    expect(job).toEqual({
      id,
      status: 'failed',
      output_url: null,
      charged_usd: 0,
      error: { code, message: expect.any(String) },
      // What was found out before it failed
      ...(details && { details }),
    });
    expect(job.error?.message).toMatch(message);
    expect(Object.keys(job)).toEqual([...FIELDS, ...(details ? ['details'] : [])]);
    // A failed job is refunded in full.
    const after = await account.api.balance();
    expect([after.balance_usd, after.total_spent_usd]).toEqual([before.balance_usd, before.total_spent_usd]);
    // The job is terminal.
    expect(await account.api.job(id)).toEqual(job);
  });
});

/** Makes 9,000 × 6,000 pixels of one colour: 54 megapixels in a few kilobytes. */
async function tooManyPixels(): Promise<Upload> {
  const bytes = await sharp({
    create: { width: 9_000, height: 6_000, channels: 3, background: '#446' },
    limitInputPixels: false,
  })
    .png({ compressionLevel: 1 })
    .toBuffer();
  return { filename: 'vast.png', contentType: 'image/png', bytes };
}

describe('Unknown job, or a job belonging to another account: `not_found` (404)', () => {
  test('unknown', async () => {
    expectError(await account.api.get('/jobs/job_00000000000000000000000000'), 'not_found');
    expectError(await account.api.get('/jobs/x'), 'not_found');
  });

  test('another account’s, word for word as an unknown one', async () => {
    const id = await submit(await faceless(), await faceless());
    const stranger = await stack.newAccount();
    const theirs = await stranger.api.get(`/jobs/${id}`);
    const unknown = await stranger.api.get(`/jobs/${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`);
    expectError(theirs, 'not_found');
    const neutral = (text: string) => text.replaceAll(/[a-z]*[-_]?[0-9a-z]{26}/g, 'ID');
    expect(neutral(theirs.text)).toBe(neutral(unknown.text));
    await account.api.finished(id);
    expectError(await stranger.api.get(`/jobs/${id}`), 'not_found');
  });
});
