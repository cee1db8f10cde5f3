import { z } from 'zod';
import type { Operation } from '../openapi/operation.ts';

const uploadForm = z
  .object({
    file: z.string().meta({
      format: 'binary',
      description:
        'One image or audio file of at most 45 MiB, or video of at most 500 MiB. Its part has a filename; its type is taken from the Content-Type of the part, else from the extension.',
    }),
  })
  .meta({ id: 'UploadForm', description: 'One file.' });

const uploadSchema = z
  .object({
    file_key: z.string().meta({
      pattern: '^api/',
      maxLength: 512,
      description: 'Key of the file, to be passed back exactly as received.',
    }),
    url: z.string().meta({ format: 'uri', description: 'Signed, expiring link to the file.' }),
  })
  .meta({ id: 'Upload' });

export const uploadOperation: Operation = {
  id: 'upload',
  tag: 'Uploads',
  summary: 'Upload a file',
  description:
    'The form has exactly one file, in the field `file`. A file over the limit is refused as soon as the first byte too many arrives.',
  key: 'required',
  body: { type: 'multipart/form-data', schema: uploadForm },
  answers: [
    {
      status: 200,
      description: 'The file is stored.',
      schema: uploadSchema,
      example: {
        file_key: 'api/01k9x3v7m2q8r5t1w4y6z0abcd',
        url: 'https://render.example.com/files/api/01k9x3v7m2q8r5t1w4y6z0abcd?expires=1767225600&signature=k3Jx',
      },
    },
  ],
  errors: ['invalid_input', 'unsupported_format', 'input_too_large', 'at_capacity'],
};
