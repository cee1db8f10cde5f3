import { deviceFaultOf } from '@semblance/engine-api/device-fault';
import type { InferenceSession } from 'onnxruntime-node';
import type { Provider } from './protocol.ts';

/**
 * Returns the options of a session. Of the options of the CUDA provider, onnxruntime's Node.js binding passes only
 * the number of the device; those below are options of the session, which it passes on.
 * @param device number of the GPU
 * @param threads number of threads of one run on the CPU
 */
export function sessionOptions(
  provider: Provider,
  device: number,
  threads: number,
): InferenceSession.SessionOptions {
  const onCpu = provider === 'cpu';
  return {
    executionProviders: [onCpu ? 'cpu' : { name: provider, deviceId: device }],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 4,
    // On a GPU, main memory has only what goes in and out, and an arena for each model would keep the most of it.
    enableCpuMemArena: onCpu,
    // Weights get memory of exactly their size. In the arena they would take the next power of two.
    extra: { session: { use_device_allocator_for_initializers: '1' } },
  };
}

/**
 * Returns whether a failure to load a model means that the provider is missing on this machine (its library, driver
 * or device), so that the next one may take its place.
 * @param first whether no model has been loaded yet
 */
export function isMissing(provider: Provider, reason: string, first: boolean): boolean {
  // A full device is there: memory that is free a moment later must not mean a whole life on the CPU.
  return first && provider !== 'cpu' && deviceFaultOf(reason) !== 'full';
}
