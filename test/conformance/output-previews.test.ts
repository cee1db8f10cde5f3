import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless, largePortrait } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: a small picture of each output. */
let stack: Stack;
let account: Account;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
}, 240_000);

async function swapped(image = ADMIRAL) {
  const { api } = account;
  const [image_key, face_key] = await Promise.all([api.upload(image), api.upload(ASTRONAUT)]);
  return api.finished((await api.swap({ image_key, face_key })).id);
}
const bytesOf = async (url: string | null | undefined) =>
  Buffer.from(await (await fetch(url ?? '')).arrayBuffer());

describe('preview_url', () => {
  test('leads to a small JPEG of the output, marked like it and saved under a name of its own', async () => {
    const job = await swapped(await largePortrait(1_400));
    const response = await fetch(job.preview_url ?? '');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/jpeg']);
    expect(response.headers.get('content-disposition')).toBe(
      `inline; filename="face-swap-image-${job.id}-preview.jpg"`,
    );
    const preview = Buffer.from(await response.arrayBuffer());
    expect(await sharp(preview).metadata()).toMatchObject({ format: 'jpeg', width: 320, height: 320 });
    expect(preview.toString('latin1')).toContain('digitalsourcetype/compositeWithTrainedAlgorithmicMedia');
    // It shows the output, not the input.
    const small = async (bytes: Uint8Array) =>
      sharp(bytes).resize(64, 64, { fit: 'fill' }).removeAlpha().raw().toBuffer();
    const [shown, output, input] = await Promise.all([
      small(preview),
      small(await bytesOf(job.output_url)),
      small((await largePortrait(1_400)).bytes),
    ]);
    const distance = (a: Buffer, b: Buffer) =>
      a.reduce((sum, value, i) => sum + Math.abs(value - (b[i] ?? 0)), 0) / a.length;
    expect(distance(shown, output)).toBeLessThan(4);
    expect(distance(shown, output)).toBeLessThan(distance(shown, input));
    expect((await account.api.job(job.id)).preview_url).toBe(job.preview_url);
  });

  test('goes with the output, with a receipt of its own', async () => {
    const job = await swapped();
    const preview = await bytesOf(job.preview_url);
    const answer = await account.api.request('DELETE', `/jobs/${job.id}/media`);
    expect(answer.body).toMatchObject({ output_deleted: true });
    expect((await fetch(job.preview_url ?? '')).status).toBe(404);
    expect(await account.api.job(job.id)).not.toHaveProperty('preview_url');
    const { body } = await account.api.get(`/receipts?job_id=${job.id}`);
    const { receipts } = body as { receipts: { statement: { kind: string; size_bytes: number } }[] };
    const kinds = receipts.map(({ statement }) => statement.kind).sort();
    expect(kinds).toEqual(['output', 'preview']);
    expect(receipts.find(({ statement }) => statement.kind === 'preview')?.statement.size_bytes).toBe(
      preview.length,
    );
  });

  test('is of its account alone, and a failed job has none', async () => {
    const job = await swapped();
    const stranger = await stack.newAccount();
    expectError(await stranger.api.get(`/jobs/${job.id}`), 'not_found');
    const failed = await swapped(await faceless());
    expect(failed.status).toBe('failed');
    expect(failed).not.toHaveProperty('preview_url');
  });
});
