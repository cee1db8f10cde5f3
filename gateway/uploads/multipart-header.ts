/** The form breaks the rules of multipart/form-data, or ended too early. */
export class MultipartError extends Error {
  override readonly name = 'MultipartError';
  readonly code = 'malformed_multipart';
  readonly retryable = false;
}

export interface PartHeader {
  readonly name: string;
  /** Undefined for a plain field. */
  readonly filename: string | undefined;
  /** As sent; undefined when the client sent none. */
  readonly contentType: string | undefined;
}

/**
 * Returns the boundary in a Content-Type header.
 * @returns undefined when it is not multipart/form-data with a usable boundary
 */
export function boundaryOf(contentType: string | undefined): string | undefined {
  const match = /^multipart\/form-data\s*(?=;)(.*)$/is.exec(contentType ?? '');
  if (!match) return undefined;
  const boundary = parametersOf(match[1] ?? '').get('boundary');
  // RFC 2046, 5.1.1, and a few more characters that clients use unquoted.
  return boundary && /^[\x21-\x7e ]{0,69}[\x21-\x7e]$/.test(boundary) ? boundary : undefined;
}

/**
 * Parses the headers of a part, without the empty line.
 * @throws MultipartError when it does not name its field
 */
export function parsePartHeader(block: string): PartHeader {
  let disposition: string | undefined;
  let contentType: string | undefined;
  for (const line of block.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon < 0) continue;
    const header = line.slice(0, colon).trim().toLowerCase();
    if (header === 'content-disposition') disposition ??= line.slice(colon + 1).trim();
    if (header === 'content-type') contentType ??= line.slice(colon + 1).trim();
  }
  if (!disposition || !/^form-data\s*(;|$)/i.test(disposition))
    throw new MultipartError('A part of the form has no "Content-Disposition: form-data" header.');
  const parameters = parametersOf(disposition.slice('form-data'.length));
  const name = parameters.get('name');
  if (name === undefined) throw new MultipartError('A part of the form does not name its field.');
  return {
    name,
    filename: extendedValue(parameters.get('filename*')) ?? parameters.get('filename'),
    contentType,
  };
}

/** Returns the filename in a Content-Disposition header of a request (RFC 6266). */
export function filenameIn(disposition: string | undefined): string | undefined {
  const parameters = parametersOf(disposition?.slice(disposition.indexOf(';')) ?? '');
  return extendedValue(parameters.get('filename*')) ?? parameters.get('filename');
}

const PARAMETER = /;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))/gs;

/**
 * Parses the parameters after a header's value; the first one of a name wins. Inside quotes `\"` and `\\` are
 * unescaped.
 */
function parametersOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of text.matchAll(PARAMETER)) {
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, quoted?.replace(/\\(["\\])/g, '$1') ?? plain);
  }
  return found;
}

/** Decodes RFC 8187: `UTF-8''na%C3%AFve.png`. */
function extendedValue(text: string | undefined): string | undefined {
  const encoded = /^utf-8'[^']*'(.*)$/is.exec(text ?? '')?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
