/** @module-tag ffmpeg */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

/** Files as phones and people make them: additions to the types of the specification. */

const PHONE = join(import.meta.dirname, '../../media/phone');
let account: Account;
beforeAll(async () => {
  account = await (await sharedStack()).newAccount();
}, 240_000);

const phone = async (filename: string, contentType?: string) => ({
  filename,
  ...(contentType && { contentType }),
  bytes: await readFile(join(PHONE, filename)),
});
const upload = (filename: string, contentType: string, bytes: Buffer) =>
  account.api.upload({ filename, contentType, bytes });

async function swapped(image_key: string, face_key: string) {
  const { id } = await account.api.swap({ image_key, face_key });
  const job = await account.api.finished(id);
  expect(job.error).toBeNull();
  return Buffer.from(await (await fetch(job.output_url ?? '')).arrayBuffer());
}

describe('pictures', () => {
  test('HEIC of a phone is taken by type or extension, as what is changed and as a face', async () => {
    const image = await account.api.upload(await phone('portrait.heic', 'image/heic'));
    const face = await account.api.upload(await phone('deep.heic'));
    const output = await sharp(await swapped(image, face)).metadata();
    // Upright, with the profile of Display P3.
    expect(output).toMatchObject({ format: 'jpeg', width: 512, height: 600 });
    expect(output.icc?.includes('Display P3') || output.icc?.length).toBeTruthy();
  });

  test('AVIF is taken', async () => {
    const bytes = await sharp(ASTRONAUT.bytes).avif({ quality: 80 }).toBuffer();
    const output = await swapped(
      await upload('a.avif', 'image/avif', bytes),
      await account.api.upload(ADMIRAL),
    );
    expect(await sharp(output).metadata()).toMatchObject({ format: 'jpeg', width: 512, height: 512 });
  });

  test('PNG of 16 bits comes back in 16 bits, its untouched pixels to the bit', async () => {
    const { data, info } = await sharp(ASTRONAUT.bytes)
      .removeAlpha()
      .raw()
      .toBuffer({ resolveWithObject: true });
    const deep = Uint16Array.from(data, (value, i) => value * 256 + (i % 251));
    const raw = { width: info.width, height: info.height, channels: 3 } as const;
    const bytes = await sharp(deep, { raw }).toColourspace('rgb16').png().toBuffer();
    const output = await swapped(
      await upload('deep.png', 'image/png', bytes),
      await account.api.upload(ADMIRAL),
    );
    expect(await sharp(output).metadata()).toMatchObject({ format: 'png', depth: 'ushort' });
    const out = await sharp(output).toColourspace('rgb16').raw({ depth: 'ushort' }).toBuffer();
    const samples = new Uint16Array(out.buffer, out.byteOffset, out.length / 2);
    // The last rows are far from the face.
    const rest = deep.length - 20 * info.width * 3;
    expect(samples.subarray(rest)).toEqual(deep.subarray(rest));
    expect(samples).not.toEqual(deep);
  });

  test('what no agent decodes is refused at the upload, with the reason', async () => {
    const heic = await readFile(join(PHONE, 'portrait.heic'));
    const vvc = Buffer.from(heic.toString('latin1').replaceAll('hvc1', 'vvc1'), 'latin1');
    const part = { name: 'file', filename: 'a.heic', contentType: 'image/heic', body: vvc };
    const answer = await account.api.multipart([part]);
    expectError(answer, 'unsupported_format');
    expect(answer.text).toContain('vvc1');
    heic.writeUInt16BE(16, heic.indexOf('nclx') + 6);
    expect((await account.api.multipart([{ ...part, body: heic }])).text).toContain('high dynamic range');
  });
});

describe('animated pictures in the place of videos', () => {
  /** A swaying portrait. */
  async function frames(): Promise<Buffer[]> {
    const portrait = sharp(ASTRONAUT.bytes);
    return Promise.all(
      [0, 6, 12, 18, 12, 6].map((left) =>
        portrait
          .clone()
          .extract({ left: 60 + left, top: 0, width: 320, height: 320 })
          .png()
          .toBuffer(),
      ),
    );
  }
  const animation = async () => sharp(await frames(), { join: { animated: true } });
  const made = {
    gif: async () => (await animation()).gif({ delay: [200] }).toBuffer(),
    webp: async () => (await animation()).webp({ quality: 90, delay: new Array(6).fill(200) }).toBuffer(),
  };

  test.each(['gif', 'webp'] as const)('%s becomes a video of its length', async (format) => {
    const video_key = await upload(`moving.${format}`, `image/${format}`, await made[format]());
    const { body } = await account.api.post('/face-swap', {
      video_key,
      face_key: await account.api.upload(ADMIRAL),
    });
    const job = await account.api.finished((body as { id: string }).id);
    expect(job).toMatchObject({ status: 'succeeded', error: null });
    const output = await fetch(job.output_url ?? '');
    expect(output.headers.get('content-type')).toBe('video/mp4');
  });

  test('a still picture is no video: `invalid_input` at the submit', async () => {
    const video_key = await account.api.upload(ASTRONAUT);
    const face_key = await account.api.upload(ADMIRAL);
    const answer = await account.api.post('/face-swap', { video_key, face_key });
    expectError(answer, 'invalid_input');
    expect(answer.text).toContain('video_key');
  });
});
