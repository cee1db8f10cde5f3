import { existsSync, readdirSync } from 'node:fs';

/**
 * - gone: the device cannot be used any more, for any work.
 * - full: memory could not be had, or other processes hold all that the device gives out. The work is not the cause.
 *   The arenas of the runtime keep what they took, so only the end of the process frees it.
 * - broken: a run failed on the device, possibly because of its input. The process cannot run anything else.
 */
export type DeviceFault = 'gone' | 'full' | 'broken';

/** The device of the engine is gone, and its process with it. The work is not the cause and can be done elsewhere. */
export class DeviceGoneError extends Error {
  override readonly name = 'DeviceGoneError';
  readonly code = 'device_gone';
  readonly retryable = true;
}

/**
 * Errors of the CUDA runtime (cudaError_t, driver_types.h of CUDA 12.9) that describe the device or its driver and
 * not the work. `DevicesUnavailable` and `Unknown` are what a GPU that has fallen off the bus gives.
 */
const CUDA_GONE: Readonly<Record<number, string>> = {
  3: 'InitializationError',
  34: 'StubLibrary',
  35: 'InsufficientDriver',
  36: 'CallRequiresNewerDriver',
  46: 'DevicesUnavailable',
  100: 'NoDevice',
  101: 'InvalidDevice',
  102: 'DeviceNotLicensed',
  214: 'ECCUncorrectable',
  220: 'NvlinkUncorrectable',
  304: 'OperatingSystem',
  802: 'SystemNotReady',
  803: 'SystemDriverMismatch',
  804: 'CompatNotSupportedOnDevice',
  805: 'MpsConnectionFailed',
  806: 'MpsRpcFailure',
  807: 'MpsServerNotReady',
  810: 'MpsClientTerminated',
  999: 'Unknown',
};
/** Errors of the CUDA runtime for what other processes on the device use up. */
const CUDA_FULL: Readonly<Record<number, string>> = {
  2: 'MemoryAllocation',
  808: 'MpsMaxClientsReached',
  809: 'MpsMaxConnectionsReached',
};
/**
 * Numbers for a failed allocation in the other libraries, as onnxruntime prints them: cublasStatus_t, cudnnStatus_t
 * before and since cuDNN 9 (4003 in host memory, 4004 in the device's), cufftResult, curandStatus_t.
 */
const LIBRARY_FULL: Readonly<Record<string, readonly number[]>> = {
  CUBLAS: [3],
  CUDNN: [2, 4003, 4004],
  CUFFT: [2],
  CURAND: [102],
};

/** onnxruntime's CudaCall: `CUDNN failure 4004: … ; GPU=0 ; hostname=… ; file=… ; line=… ; expr=…; `. */
const FAILURE = /\b(CUDA|CUBLAS|CUDNN|CUDNN_FE|CUFFT|CURAND|NCCL) failure (\d+)\b/g;
const names = (errors: Readonly<Record<number, string>>) => Object.values(errors).join('|');
const GONE_TEXTS: readonly RegExp[] = [
  new RegExp(`\\bcudaError(${names(CUDA_GONE)})\\b`),
  /\bCUDA_ERROR_(NOT_INITIALIZED|STUB_LIBRARY|NO_DEVICE|INVALID_DEVICE|DEVICE_UNAVAILABLE|DEVICE_NOT_LICENSED|ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|OPERATING_SYSTEM|SYSTEM_NOT_READY|SYSTEM_DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED_ON_DEVICE|UNKNOWN)\b/,
  // Of cudaGetErrorString, where TensorRT and the memory pools print no number.
  /no CUDA-capable device is detected|CUDA-capable devices? (is|are) busy or unavailable|CUDA driver version is insufficient|uncorrectable (ECC|NVLink) error/,
  /Cuda Runtime \((initialization error|system not yet initialized|unknown error)/,
];
const FULL_TEXTS: readonly RegExp[] = [
  new RegExp(`\\bcudaError(${names(CUDA_FULL)})\\b`),
  /\b(CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_(HOST|DEVICE)_ALLOCATION_FAILED|CUFFT_ALLOC_FAILED|CURAND_STATUS_ALLOCATION_FAILED|CUDA_ERROR_OUT_OF_MEMORY)\b/,
  // bfc_arena.cc and allocator.h of onnxruntime, which name neither library nor number. Words that a decoder may say of
  // a damaged file are not enough.
  /\bFailed to allocate memory for requested buffer\b|\bis smaller than requested bytes of\b|\bFailed to find a free memory block\b|\bArena ran out of memory\b|\bMemory allocation failed\. Size=/,
  /\bcuda.*\bout of memory\b|\bError Code \d+: OutOfMemory\b|\bGPU memory \(\d+ bytes\) could not be allocated\b|\bbad_alloc\b/i,
];
const BROKEN_TEXTS: readonly RegExp[] = [
  /\bcudaError[A-Z]\w+|\bCUDA_ERROR_[A-Z]|\b(CUBLAS|CUDNN|CURAND)_STATUS_(?!SUCCESS\b)[A-Z]|\bCUDA error /,
  /\bCudaMempoolArena::\w+: cuda\w+ failed/,
  // The TensorRT provider says that a call failed; TensorRT's own reason goes to a log.
  /\bTensorRT EP (failed to (create|deserialize|call|parse)|could not (build|deserialize|get)|execution context enqueue failed)/i,
  /\bError Code \d+: (Cuda|Cask|Myelin|CuDNN|CuBLAS|Internal Error)/i,
];

/**
 * Returns the device fault that an error of onnxruntime reports; undefined if it reports none. A text may report
 * several, of which the one that says most about the device counts. The texts are those of onnxruntime 1.30, CUDA
 * 12.9, cuDNN 9 and TensorRT 10; the table of the test has them.
 */
export function deviceFaultOf(message: string): DeviceFault | undefined {
  const found = new Set<DeviceFault>();
  for (const [, library = '', number = ''] of message.matchAll(FAILURE)) {
    const code = Number(number);
    if (library === 'CUDA' && code in CUDA_GONE) found.add('gone');
    else if (library === 'CUDA' ? code in CUDA_FULL : LIBRARY_FULL[library]?.includes(code))
      found.add('full');
    else found.add('broken');
  }
  const says = (texts: readonly RegExp[]) => texts.some((text) => text.test(message));
  if (found.has('gone') || says(GONE_TEXTS)) return 'gone';
  if (found.has('full') || says(FULL_TEXTS)) return 'full';
  return found.has('broken') || says(BROKEN_TEXTS) ? 'broken' : undefined;
}

/** Returns the NVIDIA devices of this machine or container. */
export function nvidiaDevices(): string[] {
  try {
    return readdirSync('/dev')
      .filter((name) => /^nvidia\d+$/.test(name))
      .map((name) => `/dev/${name}`);
  } catch {
    return [];
  }
}

/** Returns the first file that does not exist; undefined if all exist. */
export function missingDevice(files: readonly string[]): string | undefined {
  const missing = files.find((file) => !existsSync(file));
  return missing === undefined ? undefined : `the device ${missing} is gone`;
}
