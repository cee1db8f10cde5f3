import { z } from 'zod';
import type { Operation } from '../../openapi/operation.ts';
import { uploadOperation } from '../upload-operation.ts';

const BOOLEAN = '^\\?[01]$';
const INTEGER = '^[0-9]{1,15}$';

const fields = {
  'Upload-Complete': z.string().meta({
    pattern: BOOLEAN,
    description: 'Whether this body ends the file: `?1`, or `?0` when more follows.',
  }),
  'Upload-Offset': z.string().meta({
    pattern: INTEGER,
    description: 'Byte of the file at which this body begins: the offset that the service said last.',
  }),
  'Upload-Length': z.string().optional().meta({
    pattern: INTEGER,
    description: 'Bytes of the whole file. It may be left out; with `?1` and a Content-Length it follows.',
  }),
  'Upload-Draft-Interop-Version': z.string().optional().meta({
    pattern: '^[0-9]+$',
    description:
      '`8`: the client takes interim responses (104) with the address of the upload, its limits and its progress. Left out: it takes none.',
  }),
  'Content-Disposition': z.string().optional().meta({
    maxLength: 2_000,
    description:
      '`inline; filename="…"`: the name of the file. Its extension says what it is if its type does not. Left out: the file has no name.',
  }),
};

const path = z.object({
  upload_id: z
    .string()
    .meta({ description: 'The last part of `Location`, as it was answered.', maxLength: 200 }),
});
const bytes = z.string().meta({ format: 'binary', description: 'Bytes of the file; there may be none.' });
const state = ['Upload-Offset', 'Upload-Complete', 'Upload-Limit', 'Upload-Length'];
const [stored] = uploadOperation.answers;
if (!stored) throw new Error('an upload has no answer');
const completed = {
  ...stored,
  description: 'The file is whole, and stored.',
  headers: ['Upload-Complete', 'Upload-Offset'],
};

const ABOUT =
  'Resumable uploads follow draft-ietf-httpbis-resumable-upload-11 (interop version 8). The body is the file itself, not a form.';

export const beginResumableOperation: Operation = {
  id: 'beginResumableUpload',
  tag: 'Uploads',
  summary: 'Begin an upload that can go on after a break',
  description: `${ABOUT} The Content-Type is that of the file. With \`Upload-Complete: ?1\` the body is the whole file, and the answer is that of \`POST /uploads\`; if the connection breaks before, the upload goes on at the address in \`Location\` of the interim response (104). With \`?0\` the answer (201) has that address. What arrived before a break is kept, for 24 hours after its last byte as shipped. An account may have 20 unfinished ones as shipped: \`at_capacity\`.`,
  key: 'required',
  headers: z.object({
    'Upload-Complete': fields['Upload-Complete'],
    'Upload-Length': fields['Upload-Length'],
    'Upload-Draft-Interop-Version': fields['Upload-Draft-Interop-Version'],
    'Content-Disposition': fields['Content-Disposition'],
  }),
  body: { type: 'application/octet-stream', schema: bytes, optional: true },
  answers: [
    completed,
    {
      status: 201,
      description: 'The body is stored, and the upload can go on.',
      headers: ['Location', ...state],
    },
  ],
  errors: ['invalid_input', 'unsupported_format', 'input_too_large', 'at_capacity'],
  otherErrors: [{ status: 409, code: 'invalid_input' }],
  errorHeaders: state,
};

export const continueResumableOperation: Operation = {
  id: 'continueResumableUpload',
  tag: 'Uploads',
  summary: 'Continue an upload',
  description: `${ABOUT} The body is appended at \`Upload-Offset\`, which must be where the upload is: otherwise 409, with the right offset in \`Upload-Offset\`. A request that continues an upload ends every earlier one. With \`Upload-Complete: ?1\` the answer is that of \`POST /uploads\`, also when it is repeated with an empty body because it was lost. An error answer with \`Upload-Complete: ?1\` is about the file: it is given up.`,
  key: 'required',
  path,
  headers: z.object({
    'Upload-Complete': fields['Upload-Complete'],
    'Upload-Offset': fields['Upload-Offset'],
    'Upload-Length': fields['Upload-Length'],
    'Upload-Draft-Interop-Version': fields['Upload-Draft-Interop-Version'],
  }),
  body: { type: 'application/partial-upload', schema: bytes, optional: true },
  answers: [
    completed,
    { status: 204, description: 'The body is stored, and the upload can go on.', headers: state },
  ],
  errors: ['invalid_input', 'unsupported_format', 'input_too_large', 'not_found', 'at_capacity'],
  otherErrors: [{ status: 409, code: 'invalid_input' }],
  errorHeaders: state,
};

export const readResumableOperation: Operation = {
  id: 'readResumableUpload',
  tag: 'Uploads',
  summary: 'Read how far an upload is',
  description:
    'Also by HEAD. The offset is where the upload goes on. A request that still sends to this upload is ended, so the offset does not move. The upload stays readable after it is complete, as long as its file.',
  key: 'required',
  path,
  answers: [{ status: 204, description: 'The state is in the headers.', headers: state }],
  errors: ['not_found'],
};

export const cancelResumableOperation: Operation = {
  id: 'cancelResumableUpload',
  tag: 'Uploads',
  summary: 'Give an unfinished upload up',
  description:
    'Deletes what is stored of it. An upload that is complete is `invalid_input`: delete its file.',
  key: 'required',
  path,
  answers: [{ status: 204, description: 'It is given up.' }],
  errors: ['invalid_input', 'not_found'],
};
