import { connect } from 'node:net';
import type { Api } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless, isoMedia, MP4, WEBM, wav } from '@semblance/testkit/stack/media';
import { BOUNDARY, MULTIPART, multipart, partHead } from '@semblance/testkit/stack/multipart';
import { sharedStack } from '@semblance/testkit/stack/stack';
import { streamUpload } from '@semblance/testkit/stack/stream-upload';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

let api: Api;

beforeAll(async () => {
  api = (await (await sharedStack()).newAccount()).api;
}, 240_000);

const post = (file: { filename?: string; contentType?: string; bytes: Uint8Array }) =>
  api.multipart([
    {
      name: 'file',
      body: file.bytes,
      ...(file.filename === undefined ? {} : { filename: file.filename }),
      ...(file.contentType === undefined ? {} : { contentType: file.contentType }),
    },
  ]);

const webp = async () => (await faceless('webp')).bytes;
const frames = (head: string) => Buffer.concat([Buffer.from(head, 'hex'), Buffer.alloc(2_000)]);
const TYPES: [string, string, () => Promise<Uint8Array> | Uint8Array][] = [
  ['image/png', 'a.png', () => ASTRONAUT.bytes],
  ['image/jpeg', 'a.jpg', () => ADMIRAL.bytes],
  ['image/jpeg', 'a.jpeg', () => ADMIRAL.bytes],
  ['image/webp', 'a.webp', webp],
  ['audio/wav', 'a.wav', () => wav().bytes],
  ['audio/mpeg', 'a.mp3', () => frames('49443303000000000000fffb9064')],
  ['audio/ogg', 'a.ogg', () => frames('4f67675300020000000000000000')],
  ['audio/flac', 'a.flac', () => frames('664c6143800000220010')],
  ['audio/mp4', 'a.m4a', () => isoMedia('M4A ')],
  ['video/mp4', 'a.mp4', () => MP4.bytes],
  ['video/webm', 'a.webm', () => WEBM.bytes],
  ['video/quicktime', 'a.mov', () => isoMedia('qt  ')],
];

describe('An image, audio or video file', () => {
  test.each(TYPES)('the type is taken from the Content-Type of the part: %s', async (type, _name, bytes) => {
    const answer = await post({ filename: 'file.bin', contentType: type, bytes: await bytes() });
    expect(answer.status, answer.text).toBe(200);
  });

  test.each(TYPES)(
    'and falls back to the filename extension when the client sets none: %s as %s',
    async (_type, name, bytes) => {
      const answer = await post({ filename: name, bytes: await bytes() });
      expect(answer.status, answer.text).toBe(200);
    },
  );

  test('extensions and types are read in any case, parameters of a type are allowed', async () => {
    expect((await post({ filename: 'A.PNG', bytes: ASTRONAUT.bytes })).status).toBe(200);
    const typed = { filename: 'x', contentType: 'IMAGE/PNG; charset=binary', bytes: ASTRONAUT.bytes };
    expect((await post(typed)).status).toBe(200);
  });

  test('names of files are only names: paths, quotes, other scripts', async () => {
    for (const filename of [
      '../../etc/passwd.png',
      'C:\\face.png',
      'ünïcode 顔.png',
      `${'n'.repeat(500)}.png`,
    ]) {
      const answer = await post({ filename, contentType: 'image/png', bytes: ASTRONAUT.bytes });
      expect(answer.status, `${filename} ${answer.text}`).toBe(200);
    }
  });
});

describe('Response: upload record', () => {
  test('exactly `file_key` and `url`; the key begins with `api/`', async () => {
    const answer = await post(ASTRONAUT);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
    expect(answer.body).toEqual({ file_key: expect.stringMatching(/^api\/.+/), url: expect.any(String) });
  });

  test('`url`: URL of the hosted upload, serving the very bytes without a key', async () => {
    const { url } = (await post(ASTRONAUT)).body as { url: string };
    const hosted = await fetch(url);
    expect(hosted.status).toBe(200);
    expect(hosted.headers.get('content-type')).toBe('image/png');
    expect(Buffer.from(await hosted.arrayBuffer()).equals(Buffer.from(ASTRONAUT.bytes))).toBe(true);
  });

  test('two uploads of the same file have keys of their own', async () => {
    const [first, second] = await Promise.all([api.upload(ASTRONAUT), api.upload(ASTRONAUT)]);
    expect(first).not.toBe(second);
  });

  test('a hosted file that is no picture cannot be run as a page by a browser', async () => {
    const { url } = (await post(wav())).body as { url: string };
    const hosted = await fetch(url);
    await hosted.body?.cancel();
    expect(hosted.headers.get('x-content-type-options')).toBe('nosniff');
  });
});

describe('`unsupported_format` (400): the file type is not accepted', () => {
  const html = Buffer.from('<!doctype html><script>alert(1)</script>'.repeat(20));
  const tiff = Buffer.from('49492a0008000000', 'hex');
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>');
  test.each([
    ['a type that is none of the three kinds', 'application/pdf', 'a.pdf', Buffer.from('%PDF-1.7\n%%EOF')],
    ['text', 'text/plain', 'a.txt', Buffer.from('hello')],
    ['a page', 'text/html', 'a.html', html],
    ['an image type that is not accepted', 'image/tiff', 'a.tiff', tiff],
    ['a drawing', 'image/svg+xml', 'a.svg', svg],
    ['a type that wins over a good extension', 'application/pdf', 'a.png', ASTRONAUT.bytes],
    ['no type and an unknown extension', undefined, 'a.xyz', ASTRONAUT.bytes],
    ['bytes that are not what the type says', 'image/png', 'a.png', html],
    ['bytes of another kind than the type says', 'video/mp4', 'a.mp4', ASTRONAUT.bytes],
    ['a picture said to be sound', 'audio/wav', 'a.wav', ADMIRAL.bytes],
    ['bytes too few to be anything', 'image/png', 'a.png', Buffer.from([0x89])],
  ])('%s', async (_name, contentType, filename, bytes) => {
    expectError(
      await post({ filename, ...(contentType ? { contentType } : {}), bytes }),
      'unsupported_format',
    );
  });
});

describe('POST /uploads, Content-Type `multipart/form-data`, field `file` required', () => {
  const good = { name: 'file', filename: 'a.png', contentType: 'image/png', body: ASTRONAUT.bytes };

  test('another type of body is `invalid_input`', async () => {
    for (const type of [
      'application/json',
      'image/png',
      'multipart/form-data',
      'multipart/mixed; boundary=x',
    ]) {
      const answer = await api.request('POST', '/uploads', {
        headers: { 'content-type': type },
        body: Buffer.from(ASTRONAUT.bytes),
      });
      expectError(answer, 'invalid_input');
    }
    expectError(await api.request('POST', '/uploads'), 'invalid_input');
  });

  test('no part at all, another name, or a plain field is `invalid_input`', async () => {
    expectError(await api.multipart([]), 'invalid_input');
    expectError(await api.multipart([{ ...good, name: 'image' }]), 'invalid_input');
    expectError(await api.multipart([{ name: 'file', body: 'just text' }]), 'invalid_input');
  });

  test('an empty file is refused', async () => {
    expectError(await post({ ...ASTRONAUT, bytes: Buffer.alloc(0) }), 'invalid_input', 'unsupported_format');
  });

  test('two files are `invalid_input`', async () => {
    expectError(await api.multipart([good, good]), 'invalid_input');
    expectError(await api.multipart([good, { ...good, name: 'other' }]), 'invalid_input');
  });

  test('fields beside the file do no harm', async () => {
    const answer = await api.multipart([{ name: 'note', body: 'holiday' }, good]);
    expect(answer.status, answer.text).toBe(200);
  });

  test('a body that ends before its last boundary is `invalid_input`', async () => {
    const whole = multipart([good]);
    const cuts = [whole.length - 1 - BOUNDARY.length, whole.length - 5_000, partHead(good).length, 20];
    for (const cut of cuts) {
      const answer = await api.request('POST', '/uploads', {
        headers: { 'content-type': MULTIPART },
        body: whole.subarray(0, cut),
      });
      expectError(answer, 'invalid_input');
    }
  });

  test('a client that vanishes in the middle leaves a service that goes on', async () => {
    const upload = {
      baseUrl: api.baseUrl,
      apiKey: api.apiKey ?? '',
      filename: 'a.wav',
      contentType: 'audio/wav',
    };
    const broken = Array.from({ length: 5 }, () =>
      streamUpload({
        ...upload,
        start: wav().bytes,
        size: 20 << 20,
        declareLength: true,
        breakAfter: 1 << 20,
      }),
    );
    const results = await Promise.allSettled(broken);
    expect(results.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
    expect((await post(ASTRONAUT)).status).toBe(200);
  });

  test('parts that come byte by byte are put together', async () => {
    const small = await sharp({ create: { width: 2, height: 2, channels: 3, background: 'red' } })
      .png()
      .toBuffer();
    const body = multipart([{ ...good, body: small }]);
    const { hostname, port, pathname } = new URL(api.baseUrl);
    const said = await new Promise<string>((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true }, async () => {
        const head =
          `POST ${pathname}/uploads HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${api.apiKey}\r\n` +
          `Content-Type: ${MULTIPART}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
        socket.write(head);
        for (let at = 0; at < body.length; at += 3) {
          socket.write(body.subarray(at, at + 3));
          await new Promise(setImmediate);
        }
      });
      let text = '';
      socket.on('data', (bytes) => {
        text += bytes;
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(text));
    });
    expect(said).toMatch(/^HTTP\/1\.1 200 /);
  });
});
