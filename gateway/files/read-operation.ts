import { z } from 'zod';
import type { Operation } from '../openapi/operation.ts';

const file = z.string().meta({ format: 'binary' });
const headers = ['ETag', 'Last-Modified', 'Cache-Control', 'Accept-Ranges'];

export const readFileOperation: Operation = {
  id: 'readFile',
  tag: 'Files',
  summary: 'Read a file by its signed link',
  description:
    'The `url` of an upload or the `output_url` of a job, used as it is: the key in it has slashes, and the signature covers all of it. Only where this service serves the files itself; with an S3 store, links lead there.',
  key: 'none',
  path: z.object({ key: z.string().min(1).meta({ description: 'Key of the file, slashes included.' }) }),
  query: z.object({
    expires: z.string().meta({
      pattern: '^[0-9]+$',
      description: 'When the link ends to work, in Unix seconds; part of the link.',
    }),
    signature: z.string().meta({ description: 'Signature of the link; part of it.' }),
  }),
  headers: z.object({
    Range: z
      .string()
      .optional()
      .meta({ description: 'A single range, such as `bytes=0-1023`. Left out: the whole file.' }),
    'If-Range': z.string().optional().meta({
      description: 'ETag or date of the file of which the range is wanted. Left out: of any.',
    }),
    'If-None-Match': z.string().optional().meta({
      description: 'ETags of copies that the client has. Left out: it has none.',
    }),
    'If-Modified-Since': z.string().optional().meta({
      description: 'Date of the copy that the client has. Left out: it has none.',
    }),
  }),
  answers: [
    { status: 200, description: 'The file.', type: '*/*', schema: file, headers },
    {
      status: 206,
      description: 'A part of the file.',
      type: '*/*',
      schema: file,
      headers: [...headers, 'Content-Range'],
    },
    { status: 304, description: 'The copy that the client has is current.', headers },
  ],
  errors: ['not_found'],
  otherErrors: [
    { status: 403, code: 'unauthorized' },
    { status: 416, code: 'invalid_input' },
    { status: 503, code: 'at_capacity' },
  ],
};
