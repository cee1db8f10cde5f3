import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { InferenceSession } from 'onnxruntime-node';
import { expect, it } from 'vitest';
import { isMissing, sessionOptions } from './session-options.ts';

it('keeps weights out of the arena, and on a GPU has no arena in main memory', () => {
  expect(sessionOptions('cuda', 1, 2)).toMatchObject({
    executionProviders: [{ name: 'cuda', deviceId: 1 }],
    enableCpuMemArena: false,
    extra: { session: { use_device_allocator_for_initializers: '1' } },
  });
  expect(sessionOptions('cpu', 0, 2)).toMatchObject({
    executionProviders: ['cpu'],
    enableCpuMemArena: true,
    extra: { session: { use_device_allocator_for_initializers: '1' } },
  });
});

it('sets nothing that the binding does not read', async () => {
  const graph = new GraphBuilder();
  graph.output(graph.op('Neg', [graph.input('input', [1])]), 'output', [1]);
  const open = (change: object) =>
    InferenceSession.create(graph.build(), { ...sessionOptions('cpu', 0, 1), ...change });
  await (await open({})).release();
  // The binding refuses a wrong type only of what it reads.
  await expect(open({ enableCpuMemArena: 1 })).rejects.toThrow(/enableCpuMemArena must be a boolean/);
  const session = { use_device_allocator_for_initializers: 1 };
  await expect(open({ extra: { session } })).rejects.toThrow(/extra value must be a string/);
});

it.each([
  ['libonnxruntime_providers_cuda.so: cannot open shared object file', true],
  ['CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1', true],
  ['CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);', false],
  ['CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; expr=cublasCreate(&cublas_handle_);', false],
])('goes on to the next provider after «%s»: %s', (reason, missing) => {
  expect(isMissing('cuda', reason, true)).toBe(missing);
  expect(isMissing('cuda', reason, false)).toBe(false);
  expect(isMissing('cpu', reason, true)).toBe(false);
});
