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
    { method: 'post', path: '/batches', handler: submitBatch(options), operation: submitBatchOperation },
    { method: 'get', path: '/batches', handler: listBatches(options), operation: listBatchesOperation },
    {
      method: 'post',
      path: '/batches/estimate',
      handler: estimateBatch(options),
      operation: estimateBatchOperation,
    },
    { method: 'get', path: batch, handler: readBatchRecord(options), operation: readBatchOperation },
    {
      method: 'get',
      path: `${batch}/jobs`,
      handler: listBatchJobs(options),
      operation: listBatchJobsOperation,
    },
    {
      method: 'post',
      path: `${batch}/cancel`,
      handler: cancelBatch(options),
      operation: cancelBatchOperation,
    },
  ];
}
