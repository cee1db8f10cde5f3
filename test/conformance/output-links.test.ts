import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

let output: URL;
let whole: Buffer;
let contentType: string;

beforeAll(async () => {
  const { api } = await (await sharedStack()).newAccount();
  const [image_key, face_key] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
  const { id } = await api.swap({ image_key, face_key });
  const job = await api.finished(id);
  output = new URL(job.output_url ?? `job failed: ${JSON.stringify(job.error)}`);
  const response = await fetch(output);
  contentType = response.headers.get('content-type') ?? '';
  whole = Buffer.from(await response.arrayBuffer());
}, 240_000);

const ranged = (range: string) => fetch(output, { headers: { range } });

describe('`output_url`: signed, expiring link', () => {
  test('gives the swapped picture, of the base’s size, without a key', async () => {
    const made = await sharp(whole).metadata();
    expect([made.width, made.height]).toEqual([512, 512]);
    expect(contentType).toBe(`image/${made.format}`);
    // The picture must have the base's surroundings and another face.
    const pixels = async (bytes: Uint8Array) =>
      sharp(Buffer.from(bytes)).toColourspace('srgb').removeAlpha().raw().toBuffer();
    const [before, after] = await Promise.all([pixels(ASTRONAUT.bytes), pixels(whole)]);
    expect(after.length).toBe(before.length);
    let changed = 0;
    for (let i = 0; i < before.length; i++) {
      if (Math.abs((before[i] as number) - (after[i] as number)) > 12) changed++;
    }
    expect(changed / before.length).toBeGreaterThan(0.005);
    expect(changed / before.length).toBeLessThan(0.4);
  });

  test('says its length, and that ranges are served', async () => {
    const response = await fetch(output);
    await response.body?.cancel();
    expect(Number(response.headers.get('content-length'))).toBe(whole.length);
    expect(response.headers.get('accept-ranges')).toBe('bytes');
  });

  test('HEAD says what GET says, without the bytes', async () => {
    const head = await fetch(output, { method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(head.headers.get('content-type')).toBe(contentType);
    expect(Number(head.headers.get('content-length'))).toBe(whole.length);
    expect((await head.arrayBuffer()).byteLength).toBe(0);
  });

  test.each<[string, (size: number) => [number, number]]>([
    ['bytes=0-99', () => [0, 99]],
    ['bytes=100-100', () => [100, 100]],
    ['bytes=1000-', (size) => [1000, size - 1]],
    ['bytes=-500', (size) => [size - 500, size - 1]],
    ['bytes=10-999999999', (size) => [10, size - 1]],
  ])('Range: %s', async (range, expected) => {
    const [first, last] = expected(whole.length);
    const response = await ranged(range);
    expect(response.status).toBe(206);
    expect(response.headers.get('content-range')).toBe(`bytes ${first}-${last}/${whole.length}`);
    expect(response.headers.get('content-type')).toBe(contentType);
    const part = Buffer.from(await response.arrayBuffer());
    expect(part.equals(whole.subarray(first, last + 1))).toBe(true);
  });

  test('a range behind the end is 416 and says the size', async () => {
    const response = await ranged(`bytes=${whole.length}-`);
    expect(response.status).toBe(416);
    expect(response.headers.get('content-range')).toBe(`bytes */${whole.length}`);
    await response.body?.cancel();
  });

  test('a range that is none is ignored', async () => {
    for (const range of ['bytes=abc', 'lines=1-2', 'bytes=9-3']) {
      const response = await ranged(range);
      const bytes = Buffer.from(await response.arrayBuffer());
      expect([response.status, bytes.length], range).toEqual([200, whole.length]);
    }
  });

  test('a link that was changed in any part opens nothing', async () => {
    const changes: URL[] = [];
    const changed = (change: (url: URL) => void) => {
      const url = new URL(output);
      change(url);
      changes.push(url);
    };
    for (const name of output.searchParams.keys()) {
      changed((url) => url.searchParams.delete(name));
      changed((url) => {
        const value = url.searchParams.get(name) ?? '';
        const last = value.slice(-1) === '1' ? '2' : '1';
        url.searchParams.set(name, value.slice(0, -1) + last);
      });
      // This expiry is later than the signed one.
      changed((url) => url.searchParams.set(name, '99999999999'));
    }
    changed((url) => {
      url.pathname = url.pathname.replace(/.$/, (letter) => (letter === 'a' ? 'b' : 'a'));
    });
    changed((url) => {
      url.search = '';
    });
    expect(changes.length).toBeGreaterThan(4);
    for (const url of changes) {
      const response = await fetch(url);
      const text = await response.text();
      expect([400, 401, 403, 404], `${url.pathname}${url.search}`).toContain(response.status);
      expect(JSON.parse(text), text).toEqual({
        error: { code: expect.any(String), message: expect.any(String) },
      });
    }
  });

  test('a link to read is no link to write or delete', async () => {
    for (const method of ['PUT', 'POST', 'DELETE']) {
      const response = await fetch(output, {
        method,
        ...(method === 'DELETE' ? {} : { body: 'overwritten' }),
      });
      await response.body?.cancel();
      expect(response.status, method).toBeGreaterThanOrEqual(400);
      expect(response.status, method).toBeLessThan(500);
    }
    expect(Buffer.from(await (await fetch(output)).arrayBuffer()).equals(whole)).toBe(true);
  });
});
