import { hash } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { MediaKind } from '@semblance/proto/semblance/control/v1/control';
import { type FormPart, formBytes, mp4Bytes, pngBytes, seeded } from '@semblance/testkit/gateway/form';
import { parseRaw, startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { KIB, sizeLimits, uploadRig } from '@semblance/testkit/gateway/upload-rig';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';

const rig = uploadRig();
const { post, send, expectRefused, requestHead, open } = rig;
let t: TestGateway;
beforeAll(() => {
  t = rig.gateway;
});

describe('POST /uploads', () => {
  it('stores the file and answers "upload record (file_key, url)"', async () => {
    const picture = await sharp({ create: { width: 300, height: 200, channels: 3, background: 'teal' } })
      .jpeg()
      .toBuffer();
    const form = new FormData();
    form.append('note', 'fields beside the file are ignored');
    form.append('file', new Blob([picture], { type: 'image/jpeg' }), 'teal.jpg');
    const response = await fetch(`${t.base}/uploads`, { method: 'POST', headers: t.auth, body: form });
    expect(response.status).toBe(200);
    const record = (await response.json()) as { file_key: string; url: string };
    expect(Object.keys(record)).toEqual(['file_key', 'url']);
    expect(record.file_key).toMatch(/^api\//);
    expect(t.control.completed.get(record.file_key)).toEqual({
      animated: false,
      fileKey: record.file_key,
      accountId: 'acct',
      kind: MediaKind.MEDIA_KIND_IMAGE,
      contentType: 'image/jpeg',
      sizeBytes: BigInt(picture.length),
      sha256: hash('sha256', picture, 'buffer'),
    });
    const hosted = await fetch(t.local(record.url));
    expect(hosted.headers.get('content-type')).toBe('image/jpeg');
    expect(Buffer.from(await hosted.arrayBuffer()).equals(picture)).toBe(true);
  });

  it.each<[string, FormPart, string]>([
    [
      'by the Content-Type of the part',
      { type: 'image/png', filename: 'x', content: pngBytes() },
      'image/png',
    ],
    ['by the extension when the client sets none', { filename: 'x.PNG', content: pngBytes() }, 'image/png'],
    [
      'by the extension when the client says octet-stream',
      { type: 'application/octet-stream', filename: 'clip.mp4', content: mp4Bytes() },
      'video/mp4',
    ],
    ['by the bytes of a nameless blob', { filename: 'blob', content: pngBytes() }, 'image/png'],
    [
      'as what the bytes are within its kind',
      { type: 'image/webp', filename: 'x.jpg', content: pngBytes() },
      'image/png',
    ],
    [
      'as sound where the container may be either',
      { type: 'audio/mp4', filename: 'x', content: mp4Bytes() },
      'audio/mp4',
    ],
    ['smaller than what is looked at', { filename: 'x.png', content: pngBytes(9) }, 'image/png'],
  ])('takes the type %s', async (_name, part, contentType) => {
    const response = await send({ name: 'file', ...part });
    expect(response.status).toBe(200);
    expect([...t.control.completed.values()][0]).toMatchObject({ contentType });
  });

  it.each<[string, FormPart]>([
    ['a type not accepted', { type: 'image/tiff', filename: 'x.png', content: pngBytes() }],
    [
      'text declared as such, whatever its name and bytes',
      { type: 'text/plain', filename: 'x.png', content: pngBytes() },
    ],
    ['an extension not accepted', { filename: 'x.svg', content: '<svg/>' }],
    ['an unknown extension', { filename: 'x.xyz', content: pngBytes() }],
    ['bytes of no accepted type', { type: 'image/png', filename: 'x.png', content: 'this is text' }],
    ['bytes of another kind', { type: 'video/mp4', filename: 'x.mp4', content: pngBytes() }],
    ['a picture declared as sound', { type: 'audio/mpeg', filename: 'x.mp3', content: pngBytes() }],
  ])('"The file type is not accepted": %s', async (_name, part) => {
    await expectRefused(await send({ name: 'file', ...part }), 'unsupported_format');
  });

  const png = { name: 'file', filename: 'x.png', type: 'image/png', content: pngBytes() };
  it.each<[string, FormPart[]]>([
    ['no part at all', []],
    ['fields alone', [{ name: 'other', content: 'x' }]],
    ['the file in another field', [{ ...png, name: 'image' }]],
    ['a field without a filename', [{ name: 'file', content: 'x' }]],
    ['an empty file', [{ ...png, content: '' }]],
    ['two files', [png, png]],
    ['a second file elsewhere', [png, { ...png, name: 'other' }]],
    ['a field too large', [{ name: 'note', content: 'x'.repeat(600 * KIB) }, png]],
  ])('%s is invalid_input', async (_name, parts) => {
    await expectRefused(await post(formBytes(parts)), 'invalid_input');
  });

  it.each([
    ['JSON', 'application/json'],
    ['a form without boundary', 'multipart/form-data'],
    ['an urlencoded form', 'application/x-www-form-urlencoded'],
    ['another boundary', 'multipart/form-data; boundary=other'],
  ])('a body of another type is invalid_input: %s', async (_name, type) => {
    await expectRefused(await post(formBytes([png]), { 'content-type': type }), 'invalid_input');
  });

  it('a body that is missing is invalid_input', async () => {
    const response = await fetch(`${t.base}/uploads`, { method: 'POST', headers: t.auth });
    await expectRefused(response, 'invalid_input');
  });
});

describe('"Oversized uploads are refused while streaming, before the whole file is buffered"', () => {
  it.each([
    ['image', pngBytes, 'x.png', sizeLimits.image],
    ['video', mp4Bytes, 'x.mp4', sizeLimits.video],
  ])('%s: exactly the limit is taken, one byte more is not', async (_kind, bytesOf, filename, limit) => {
    const exact = await send({ name: 'file', filename, content: bytesOf(limit) });
    expect(exact.status).toBe(200);
    t.control.completed.clear();
    await Promise.all((await t.files()).map((path) => import('node:fs/promises').then((fs) => fs.rm(path))));
    await expectRefused(
      await send({ name: 'file', filename, content: bytesOf(limit + 1) }),
      'input_too_large',
    );
  });

  it('answers at the first byte too many, while the client has not ended', async () => {
    const socket = open();
    const form = formBytes([{ name: 'file', filename: 'x.png', content: pngBytes(sizeLimits.image + 1) }]);
    socket.write(requestHead('Transfer-Encoding: chunked'));
    const part = form.subarray(0, form.indexOf('\r\n\r\n') + 4 + sizeLimits.image);
    socket.write(`${part.length.toString(16)}\r\n`);
    socket.write(part);
    socket.write('\r\n');
    await delay(100);
    expect(socket.received).toBe('');
    socket.write('1\r\nx\r\n');
    await once(socket, 'data');
    expect(parseRaw(socket.received).status).toBe(400);
    expect(socket.received).toContain('input_too_large');
    socket.destroy();
  });

  it('answers by the Content-Length alone, before any file byte', async () => {
    for (const [filename, bytes, length] of [
      ['x.png', pngBytes(1024), 3 * 1024 * 1024],
      ['x.mp4', mp4Bytes(1024), 600 * 1024 * 1024],
    ] as const) {
      const socket = open();
      socket.write(requestHead(`Content-Length: ${length}`));
      socket.write(formBytes([{ name: 'file', filename, content: bytes }]).subarray(0, 1200));
      await once(socket, 'data');
      expect(socket.received).toContain('input_too_large');
      socket.destroy();
    }
  });

  it('lets a client that sends everything first still read the answer', async () => {
    const content = pngBytes(30 * 1024 * 1024);
    for (let i = 0; i < 3; i++)
      await expectRefused(await send({ name: 'file', filename: 'x.png', content }), 'input_too_large');
  });
});

describe('a refusal while the client is still sending', () => {
  it.each([
    ['a connection that is to be closed', 'close'],
    ['a connection that is to be kept', 'keep-alive'],
  ])('is read by it on %s', async (_name, connection) => {
    const form = formBytes([{ name: 'file', filename: 'x.tiff', content: Buffer.alloc(20 * 1024 * 1024) }]);
    const socket = open(t.port, true);
    socket.write(requestHead(`Content-Length: ${form.length}`, `Connection: ${connection}`));
    socket.write(form.subarray(0, 1000));
    await expect.poll(() => socket.received).toContain('input_too_large');
    let failure: Error | undefined;
    socket.on('error', (error) => {
      failure = error;
    });
    for (let at = 1000; at < form.length; at += 1024 * 1024) {
      socket.write(form.subarray(at, at + 1024 * 1024));
      await delay(10);
    }
    expect(failure).toBeUndefined();
    expect(parseRaw(socket.received).headers.connection).toBe(connection);
    if (connection === 'keep-alive') {
      socket.received = '';
      socket.write(requestHead('Content-Length: 0'));
      await expect.poll(() => socket.received).toContain('invalid_input');
      socket.destroy();
    } else {
      const closed = once(socket, 'close');
      socket.end();
      await closed;
    }
  });

  it('is cut when it goes on for too long', async () => {
    const own = await startTestGateway({ timing: { linger: 200 } });
    for (const connection of ['close', 'keep-alive']) {
      const socket = open(own.port);
      const closed = once(socket, 'close');
      socket.write(requestHead('Content-Length: 1000000', `Connection: ${connection}`));
      socket.write(formBytes([{ name: 'file', filename: 'x.tiff', content: 'II*\0' }]).subarray(0, 150));
      await closed;
      expect(socket.received).toContain('unsupported_format');
    }
    await own.close();
  });
});

describe('hostile forms', () => {
  it('never fail inside and never leave an object behind', async () => {
    const random = seeded(42);
    const int = (below: number) => Math.floor(random() * below);
    const pieces = ['\r\n', '--', '"', '\0', '\r\n\r\n', ';', '\xff\xfe', '----semblance-test-boundary'];
    for (let round = 0; round < 250; round++) {
      const valid = formBytes([
        ...(random() < 0.3 ? [{ name: 'note', content: 'hello' }] : []),
        { name: 'file', filename: 'x.png', type: 'image/png', content: pngBytes(200 + int(3000)) },
      ]);
      let bytes = valid;
      for (let edits = int(3) + 1; edits > 0; edits--) {
        const at = int(bytes.length);
        const kind = int(4);
        if (kind === 0) bytes = bytes.subarray(0, at);
        else if (kind === 1) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + int(30))]);
        else if (kind === 2)
          bytes = Buffer.concat([
            bytes.subarray(0, at),
            Buffer.from(pieces[int(pieces.length)] ?? '', 'latin1'),
            bytes.subarray(at),
          ]);
        else {
          bytes = Buffer.from(bytes);
          const header = Math.min(bytes.length, 200);
          if (header > 0) bytes[int(header)] = int(256);
        }
      }
      const response = await post(bytes);
      const body = (await response.json()) as { file_key?: string; error?: { code: string } };
      expect([200, 400]).toContain(response.status);
      if (response.status === 400)
        expect(['invalid_input', 'unsupported_format', 'input_too_large']).toContain(body.error?.code);
      else expect(t.control.completed.has(body.file_key ?? '')).toBe(true);
    }
    expect(t.control.reserved.size).toBe(0);
    expect((await t.files()).length).toBe(t.control.completed.size);
  });
});
