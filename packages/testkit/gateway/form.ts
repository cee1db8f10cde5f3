import { randomBytes } from 'node:crypto';

export interface FormPart {
  readonly name?: string;
  readonly filename?: string;
  readonly type?: string;
  readonly content: string | Buffer;
}

export const BOUNDARY = '----semblance-test-boundary';

/** Returns the bytes of a multipart/form-data body. They are assembled by hand so that tests can damage them. */
export function formBytes(parts: readonly FormPart[], boundary = BOUNDARY): Buffer {
  const pieces = parts.flatMap(({ name, filename, type, content }) => {
    const disposition = ['form-data'];
    if (name !== undefined) disposition.push(`name="${name}"`);
    if (filename !== undefined) disposition.push(`filename="${filename}"`);
    const lines = [`--${boundary}`, `Content-Disposition: ${disposition.join('; ')}`];
    if (type !== undefined) lines.push(`Content-Type: ${type}`);
    return [Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(content), Buffer.from('\r\n')];
  });
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

/** Returns bytes with the signature of a PNG and random content. */
export function pngBytes(size = 2000): Buffer {
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), randomBytes(Math.max(0, size - 8))]);
}

export function mp4Bytes(size = 2000): Buffer {
  return Buffer.concat([
    Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isomiso2', 'latin1'),
    randomBytes(size - 24),
  ]);
}

/** Creates a generator of numbers in [0, 1) from a seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
