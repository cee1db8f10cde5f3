import { expectError } from '@semblance/testkit/stack/expect-error';
import { ASTRONAUT, MP4, wav } from '@semblance/testkit/stack/media';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import { type StreamedUpload, streamUpload } from '@semblance/testkit/stack/stream-upload';
import { beforeAll, describe, expect, test } from 'vitest';

const MIB = 1 << 20;
/** Most bytes between socket and service: buffers of both kernels, of the client and of the parser. */
const IN_FLIGHT = 24 * MIB;

let account: Account;

beforeAll(async () => {
  account = await (await sharedStack()).newAccount();
}, 240_000);

const send = (upload: Pick<StreamedUpload, 'start' | 'size' | 'declareLength'> & Partial<StreamedUpload>) =>
  streamUpload({ baseUrl: account.api.baseUrl, apiKey: account.apiKey, filename: 'file', ...upload });

const image = { contentType: 'image/png', start: ASTRONAUT.bytes };
const video = { contentType: 'video/mp4', start: MP4.bytes };

describe('Upload size, images and audio: 45 MB. Over it returns `input_too_large`.', () => {
  test('a file of exactly the limit is accepted', async () => {
    const answer = await send({
      contentType: 'audio/wav',
      start: wav(45 * MIB).bytes.subarray(0, 64),
      size: 45 * MIB,
      declareLength: true,
    });
    expect(answer.status, answer.text).toBe(200);
  });

  test('one byte more is refused: audio', async () => {
    const upload = { contentType: 'audio/wav', start: wav().bytes.subarray(0, 64), size: 45 * MIB + 1 };
    expectError(await send({ ...upload, declareLength: true }), 'input_too_large');
  });

  test('one byte more is refused: image, chunked', async () => {
    expectError(await send({ ...image, size: 45 * MIB + 1, declareLength: false }), 'input_too_large');
  });

  test('the kind follows from the extension where no type is set', async () => {
    const upload = { filename: 'a.png', start: ASTRONAUT.bytes, size: 46 * MIB, declareLength: false };
    expectError(await send(upload), 'input_too_large');
  });
});

describe('Oversized uploads are refused while streaming, before the whole file is buffered.', () => {
  test('an image of 400 MB in chunks is refused after about 45 MB of it', async () => {
    const answer = await send({ ...image, size: 400 * MIB, declareLength: false });
    expectError(answer, 'input_too_large');
    expect(answer.sent).toBeLessThan(45 * MIB + IN_FLIGHT);
  });

  test('an image whose Content-Length says 400 MB is refused no later', async () => {
    const answer = await send({ ...image, size: 400 * MIB, declareLength: true });
    expectError(answer, 'input_too_large');
    expect(answer.sent).toBeLessThan(45 * MIB + IN_FLIGHT);
  });

  test('a file said to be a video that is a picture does not get a video’s limit', async () => {
    const answer = await send({
      contentType: 'video/mp4',
      start: ASTRONAUT.bytes,
      size: 100 * MIB,
      declareLength: false,
    });
    expectError(answer, 'unsupported_format');
    expect(answer.sent).toBeLessThan(IN_FLIGHT);
  });
});

describe('Upload size, video: 500 MB. Over it returns `input_too_large`.', () => {
  test('a body whose Content-Length leaves no doubt is refused at once', async () => {
    const answer = await send({ ...video, size: 600 * MIB, declareLength: true });
    expectError(answer, 'input_too_large');
    expect(answer.sent).toBeLessThan(IN_FLIGHT);
  });

  test('46 MB are fine', async () => {
    const answer = await send({ ...video, size: 46 * MIB, declareLength: false });
    expect(answer.status, answer.text).toBe(200);
  });

  test('a chunked body is refused when its bytes pass the limit', async () => {
    const answer = await send({ ...video, size: 700 * MIB, declareLength: false });
    expectError(answer, 'input_too_large');
    expect(answer.sent).toBeGreaterThanOrEqual(500 * MIB);
    expect(answer.sent).toBeLessThan(500 * MIB + IN_FLIGHT);
  }, 300_000);
});
