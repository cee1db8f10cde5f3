import { ApiError } from '@semblance/common/errors';
import { isObjectKey } from '@semblance/common/object-key';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import { isJobIdShaped, jobPath } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';

export const mediaQuery = z.object({
  inputs: z.enum(['true', 'false'], 'must be true or false').optional().meta({
    default: 'false',
    description: '`true`: the uploads that the job was made from, too. Left out: `false`.',
  }),
});

const deletedMedia = z
  .object({
    id: z.string().meta({ description: 'Id of the job.' }),
    output_deleted: z.boolean().meta({
      description: 'Whether an output was deleted: false when there was none any more, or none at all.',
    }),
    deleted_inputs: z.array(z.string()).meta({ description: 'File keys of the uploads deleted.' }),
    kept_inputs: z
      .array(z.string())
      .meta({ description: 'File keys of the uploads kept: a job that has not ended is made from them.' }),
  })
  .meta({ id: 'DeletedMedia' });

/** Handles DELETE /jobs/{job_id}/media. */
export function deleteJobMedia({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const jobId = ctx.params.job_id as string;
    const query = mediaQuery.safeParse(queryOf(ctx));
    if (!isJobIdShaped(jobId) || !query.success) {
      // The key is checked before a fault is reported, and refused calls count as calls.
      await control.authorize(ctx, { caller });
      throw query.success
        ? new ApiError('not_found', 'There is no such job.')
        : new ApiError('invalid_input', 'inputs must be true or false.');
    }
    const inputs = query.data.inputs === 'true';
    const deleted = await control.deleteJobMedia(ctx, { caller, jobId, inputs });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      id: jobId,
      output_deleted: deleted.outputDeleted,
      deleted_inputs: deleted.deletedInputs,
      kept_inputs: deleted.keptInputs,
    };
  };
}

export const deleteJobMediaOperation: Operation = {
  id: 'deleteJobMedia',
  tag: 'Jobs',
  summary: 'Delete the files of a job',
  description:
    'Deletes the output of a job that has ended and, when asked, the uploads it was made from that no unfinished job uses. From then on `output_url` is null; status and charge stay. Links given out before stop working. Repeating the call changes nothing. A job that has not ended is `invalid_input`.',
  key: 'required',
  path: jobPath,
  query: mediaQuery,
  answers: [
    {
      status: 200,
      description: 'What was deleted.',
      schema: deletedMedia,
      example: {
        id: 'job-06e2tq8mdkrv1v7bz7mx0q0k3c',
        output_deleted: true,
        deleted_inputs: ['api/up-06e2tq7pzb1hyw1y8c2t7xk4d0'],
        kept_inputs: [],
      },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};

const deletedUpload = z
  .object({
    file_key: z.string().meta({ description: 'Key of the deleted file.' }),
    deleted: z.literal(true).meta({ description: 'Always true.' }),
  })
  .meta({ id: 'DeletedUpload' });

/** Handles DELETE /uploads/{file_key}. */
export function deleteUpload({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const fileKey = String(ctx.params.file_key);
    if (!fileKey.startsWith('api/') || !isObjectKey(fileKey)) {
      await control.authorize(ctx, { caller });
      throw new ApiError('not_found', 'There is no such upload.');
    }
    await control.deleteUpload(ctx, { caller, fileKey });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = { file_key: fileKey, deleted: true };
  };
}

export const deleteUploadOperation: Operation = {
  id: 'deleteUpload',
  tag: 'Uploads',
  summary: 'Delete an upload',
  description:
    'Deletes the file. Its key is then like one that never was. While a job that has not ended is made from it, it cannot be deleted: `invalid_input`.',
  key: 'required',
  path: z.object({
    file_key: z.string().meta({
      pattern: '^api(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$',
      maxLength: 512,
      description: 'The key as `POST /uploads` answered it; its slash may be written as it is or as `%2F`.',
    }),
  }),
  answers: [
    {
      status: 200,
      description: 'The file is deleted.',
      schema: deletedUpload,
      example: { file_key: 'api/up-06e2tq7pzb1hyw1y8c2t7xk4d0', deleted: true },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};
