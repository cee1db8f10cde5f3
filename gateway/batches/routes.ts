import type { Route } from '../openapi/operation.ts';
import {
  type BatchOptions,
  cancelBatch,
  estimateBatch,
  listBatches,
  listBatchJobs,
  readBatchRecord,
  submitBatch,
} from './batches.ts';
import {
  cancelBatchOperation,
  estimateBatchOperation,
  listBatchesOperation,
  listBatchJobsOperation,
  readBatchOperation,
  submitBatchOperation,
} from './operations.ts';

/** Returns the routes of batches. */
export function batchRoutes(options: BatchOptions): Route[] {
  const batch = '/batches/{batch_id}';
  return [
    {
      method: 'post',
      path: '/batches',
      handler: submitBatch(options),
      scope: 'submit',
      operation: submitBatchOperation,
    },
    {
      method: 'get',
      path: '/batches',
      handler: listBatches(options),
      scope: 'read',
      operation: listBatchesOperation,
    },
    {
      method: 'post',
      path: '/batches/estimate',
      handler: estimateBatch(options),
      scope: 'submit',
      operation: estimateBatchOperation,
    },
    {
      method: 'get',
      path: batch,
      handler: readBatchRecord(options),
      scope: 'read',
      operation: readBatchOperation,
    },
    {
      method: 'get',
      path: `${batch}/jobs`,
      handler: listBatchJobs(options),
      scope: 'read',
      operation: listBatchJobsOperation,
    },
    {
      method: 'post',
      path: `${batch}/cancel`,
      handler: cancelBatch(options),
      scope: 'submit',
      operation: cancelBatchOperation,
    },
  ];
}
