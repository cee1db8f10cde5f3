import { request } from 'node:http';
import type { Answer } from './api.ts';
import { MULTIPART, partHead, TAIL } from './multipart.ts';

export interface StreamedUpload {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly filename: string;
  readonly contentType?: string;
  /** First bytes of the file; zeros follow. */
  readonly start: Uint8Array;
  /** Size of the file in bytes. */
  readonly size: number;
  /** Whether the request has a Content-Length; otherwise the body is chunked. */
  readonly declareLength: boolean;
  /** Bytes of the file after which the connection is broken. */
  readonly breakAfter?: number;
}

/** `sent`: bytes of the file given to the socket before the answer's headers arrived. */
export type StreamedAnswer = Answer & { readonly sent: number };

const ZEROS = Buffer.alloc(256 * 1024);

/**
 * Uploads a file that is generated while it is sent, at the pace of the service. It stops when an answer arrives,
 * and rejects when the connection ends without one.
 */
export function streamUpload(upload: StreamedUpload): Promise<StreamedAnswer> {
  const head = partHead({
    name: 'file',
    filename: upload.filename,
    ...(upload.contentType ? { contentType: upload.contentType } : {}),
  });
  const length = head.length + upload.size + TAIL.length;
  return new Promise((resolve, reject) => {
    let sent = 0;
    let answered = false;
    const outgoing = request(`${upload.baseUrl}/uploads`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${upload.apiKey}`,
        'content-type': MULTIPART,
        ...(upload.declareLength ? { 'content-length': length } : {}),
      },
    });
    outgoing.on('response', (response) => {
      answered = true;
      const sentByThen = sent;
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(pieces).toString('utf8');
        const headers = new Headers(Object.entries(response.headers).map(([k, v]) => [k, String(v)]));
        outgoing.destroy();
        try {
          resolve({
            status: response.statusCode ?? 0,
            headers,
            text,
            body: JSON.parse(text),
            sent: sentByThen,
          });
        } catch (error) {
          reject(error);
        }
      });
    });
    outgoing.on('error', (error) => {
      if (!answered) reject(new Error(`no answer; ${sent} bytes had been sent`, { cause: error }));
    });
    outgoing.write(head);
    const write = () => {
      while (!answered && sent < upload.size) {
        if (upload.breakAfter !== undefined && sent >= upload.breakAfter) {
          outgoing.destroy(new Error('broken off on purpose'));
          return;
        }
        const piece =
          sent < upload.start.length
            ? Buffer.from(upload.start.subarray(sent, Math.min(upload.start.length, upload.size)))
            : ZEROS.subarray(0, Math.min(ZEROS.length, upload.size - sent));
        sent += piece.length;
        if (!outgoing.write(piece)) {
          outgoing.once('drain', write);
          return;
        }
      }
      if (!answered) outgoing.end(TAIL);
    };
    write();
  });
}
