import { Readable } from 'node:stream';
import { BOUNDARY, FORM_TYPE, formBytes, seeded } from '@semblance/testkit/gateway/form';
import busboy from 'busboy';
import { describe, expect, it } from 'vitest';
import { MultipartReader } from './multipart.ts';
import { boundaryOf, MultipartError, parsePartHeader } from './multipart-header.ts';

interface ReadPart {
  name: string;
  filename: string | undefined;
  contentType: string | undefined;
  content: string;
}

async function* chunksOf(bytes: Buffer, size: () => number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; ) {
    const step = Math.max(1, size());
    yield bytes.subarray(at, at + step);
    at += step;
  }
}

async function readAll(bytes: Buffer, size = () => 64, boundary = BOUNDARY): Promise<ReadPart[]> {
  const reader = new MultipartReader(chunksOf(bytes, size), boundary);
  const parts: ReadPart[] = [];
  for (let part = await reader.nextPart(); part; part = await reader.nextPart()) {
    const content: Buffer[] = [];
    for await (const chunk of reader.body()) content.push(Buffer.from(chunk));
    parts.push({ ...part, content: Buffer.concat(content).toString('latin1') });
  }
  return parts;
}

describe('MultipartReader', () => {
  const tricky = [
    '',
    'x',
    '\r\n',
    '\r\n\r\n--',
    `\r\n--${BOUNDARY.slice(0, -1)}`,
    `--${BOUNDARY}`,
    `\r\r\n\r\n-\r\n--\r\n--${BOUNDARY.slice(0, 5)}\r`,
    'a'.repeat(1000),
    '\r'.repeat(300),
    `${`\r\n--${BOUNDARY.slice(0, 10)}`.repeat(30)}\r`,
  ];

  it.each([1, 2, 3, 7, 31, 64, 10_000])('reads every tricky content in chunks of %i', async (size) => {
    const form = formBytes(tricky.map((content, i) => ({ name: `f${i}`, filename: `${i}.bin`, content })));
    const parts = await readAll(form, () => size);
    expect(parts.map((part) => part.content)).toEqual(tricky);
  });

  it('tells a Content-Type that is absent from one that is there', async () => {
    const parts = await readAll(
      formBytes([
        { name: 'a', filename: 'a.png', content: '' },
        { name: 'b', filename: 'b.png', type: 'text/plain', content: '' },
        { name: 'c', content: 'field' },
      ]),
    );
    expect(parts.map(({ filename, contentType }) => [filename, contentType])).toEqual([
      ['a.png', undefined],
      ['b.png', 'text/plain'],
      [undefined, undefined],
    ]);
  });

  it('skips what is not read of a part', async () => {
    const form = formBytes([
      { name: 'a', content: 'x'.repeat(5000) },
      { name: 'b', content: 'y' },
    ]);
    const reader = new MultipartReader(
      chunksOf(form, () => 100),
      BOUNDARY,
    );
    await reader.nextPart();
    expect(await reader.nextPart()).toMatchObject({ name: 'b' });
    expect(await reader.nextPart()).toBeUndefined();
    expect(await reader.nextPart()).toBeUndefined();
  });

  it('allows a preamble, padding after boundaries and an epilogue', async () => {
    const text = `Preamble\r\n--${BOUNDARY} \t\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--${BOUNDARY}--  epilogue`;
    expect(await readAll(Buffer.from(text))).toMatchObject([{ name: 'a', content: 'x' }]);
  });

  it('reads a form without parts', async () => {
    expect(await readAll(Buffer.from(`--${BOUNDARY}--\r\n`))).toEqual([]);
  });

  it('refuses a form cut off anywhere', async () => {
    const form = formBytes([
      { name: 'a', content: 'x' },
      { name: 'file', filename: 'x.png', type: 'image/png', content: 'some\r\ncontent' },
    ]);
    const closing = form.length - 2;
    for (let length = 0; length < closing; length++)
      await expect(readAll(form.subarray(0, length)), `${length}`).rejects.toThrow(MultipartError);
    expect(await readAll(form.subarray(0, closing))).toHaveLength(2);
  });

  it.each([
    ['no boundary at all', 'x'.repeat(10_000)],
    ['garbage after a boundary', `--${BOUNDARY}garbage\r\n\r\n`],
    ['a part without headers', `--${BOUNDARY}\r\n\r\nx\r\n--${BOUNDARY}--`],
    [
      'a part that is no form-data',
      `--${BOUNDARY}\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--${BOUNDARY}--`,
    ],
    ['a part without a name', `--${BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--${BOUNDARY}--`],
    ['headers without end', `--${BOUNDARY}\r\n${'X-A: b\r\n'.repeat(5000)}`],
    ['too many parts', `--${BOUNDARY}\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n`.repeat(200)],
  ])('refuses %s', async (_name, text) => {
    await expect(readAll(Buffer.from(text), () => 500)).rejects.toThrow(MultipartError);
  });

  it('passes on what the source throws', async () => {
    const fault = new Error('connection lost');
    async function* source() {
      yield Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name=a\r\n\r\nx`);
      throw fault;
    }
    const reader = new MultipartReader(source(), BOUNDARY);
    await reader.nextPart();
    await expect(reader.nextPart()).rejects.toBe(fault);
  });

  it('reads random forms as busboy does', async () => {
    const random = seeded(20_260_101);
    const alphabet = [
      '\r',
      '\n',
      '\r\n',
      '-',
      '--',
      `--${BOUNDARY}`,
      `\r\n--${BOUNDARY.slice(0, 9)}`,
      'a',
      'é',
      '\0',
    ];
    const word = (length: number) =>
      Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join('');
    for (let round = 0; round < 300; round++) {
      const parts = Array.from({ length: Math.floor(random() * 4) }, (_, i) => ({
        name: `n${i}`,
        ...(random() < 0.7 ? { filename: `f${i}.bin`, type: 'application/octet-stream' } : {}),
        content: word(Math.floor(random() * 60)),
      })).filter(({ content }) => !`\r\n${content}\r\n`.includes(`\r\n--${BOUNDARY}`));
      const form = formBytes(parts);
      const ours = await readAll(form, () => Math.floor(random() * 200) + 1);
      expect(ours.map(({ content }) => content)).toEqual(
        parts.map(({ content }) => Buffer.from(content).toString('latin1')),
      );
      if (parts.length > 0)
        expect(await readWithBusboy(form)).toEqual(ours.map(({ name, content }) => [name, content]));
    }
  });
});

function readWithBusboy(form: Buffer): Promise<[string, string][]> {
  const parser = busboy({ headers: { 'content-type': FORM_TYPE }, defCharset: 'latin1' });
  const parts: [string, string][] = [];
  return new Promise((resolve, reject) => {
    parser.on('field', (name, value) => parts.push([name, value]));
    parser.on('file', (name, stream) => {
      const chunks: Buffer[] = [];
      const part: [string, string] = [name, ''];
      parts.push(part);
      stream.on('data', (chunk) => chunks.push(chunk));
      stream.on('end', () => {
        part[1] = Buffer.concat(chunks).toString('latin1');
      });
    });
    parser.on('close', () => resolve(parts));
    parser.on('error', reject);
    Readable.from([form]).pipe(parser);
  });
}

describe('boundaryOf', () => {
  it.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Form-Data;charset=utf-8; BOUNDARY="a b"', 'a b'],
    [
      'multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW',
      '----WebKitFormBoundary7MA4YWxkTrZu0gW',
    ],
    ['multipart/form-data; boundary="a\\"b"', 'a"b'],
    ['multipart/form-data', undefined],
    ['multipart/form-data; boundary=', undefined],
    ['multipart/form-data; boundary=""', undefined],
    [`multipart/form-data; boundary=${'x'.repeat(71)}`, undefined],
    ['multipart/mixed; boundary=abc', undefined],
    ['application/json', undefined],
    [undefined, undefined],
  ])('%s', (header, expected) => {
    expect(boundaryOf(header)).toBe(expected);
  });
});

describe('parsePartHeader', () => {
  const of = (disposition: string) => parsePartHeader(`Content-Disposition: ${disposition}`);

  it.each([
    ['form-data; name="file"; filename="a.png"', 'file', 'a.png'],
    ['form-data; name=file; filename=a.png', 'file', 'a.png'],
    ['form-data; filename="na\\"me.png"; name="file"', 'file', 'na"me.png'],
    ['form-data; name="file"; filename="C:\\dir\\a.png"', 'file', 'C:\\dir\\a.png'],
    ['form-data; name="file"; filename="x"; filename*=UTF-8\'\'na%C3%AFve.png', 'file', 'naïve.png'],
    ['form-data; name="file"; filename="x"; filename*=UTF-8\'\'%ff', 'file', 'x'],
    ['FORM-DATA; NAME="file"', 'file', undefined],
    ['form-data; name=""; filename=""', '', ''],
    ['form-data; name="a"; name="b"', 'a', undefined],
  ])('%s', (disposition, name, filename) => {
    expect(of(disposition)).toMatchObject({ name, filename });
  });

  it('is not held up by hostile quoting', () => {
    for (const evil of [
      '; x="'.repeat(3000),
      `; x="${'\\'.repeat(16_000)}`,
      ';'.repeat(16_000),
      `; a${' '.repeat(16_000)}`,
    ])
      expect(() => of(`form-data${evil}`)).toThrow(MultipartError);
  });
});
