/** Part of a `multipart/form-data` body. It is assembled by hand, because FormData cannot omit a Content-Type. */
export interface Part {
  readonly name: string;
  readonly body: Uint8Array | string;
  readonly filename?: string;
  /** Undefined: the part has no Content-Type header. */
  readonly contentType?: string;
}

export const BOUNDARY = 'semblance-suite-7f3a9c';
export const MULTIPART = `multipart/form-data; boundary=${BOUNDARY}`;

/** Returns everything of a part before its bytes, including the delimiter. */
export function partHead({ name, filename, contentType }: Omit<Part, 'body'>): Buffer {
  const file = filename === undefined ? '' : `; filename="${filename}"`;
  const type = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`;
  return Buffer.from(
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${type}\r\n`,
    'latin1',
  );
}

/** End of a body, after the bytes of the last part. */
export const TAIL = Buffer.from(`\r\n--${BOUNDARY}--\r\n`);

export function multipart(parts: readonly Part[]): Buffer {
  const pieces = parts.flatMap((part) => [partHead(part), Buffer.from(part.body), Buffer.from('\r\n')]);
  return Buffer.concat([...pieces, Buffer.from(`--${BOUNDARY}--\r\n`)]);
}
