import { existsSync, readdirSync } from 'node:fs';

/**
 * - gone: the device cannot be used any more, for any work.
 * - broken: a run failed on the device, possibly because of its input. The process cannot run anything else.
 */
export type DeviceFault = 'gone' | 'broken';

/** The device of the engine is gone, and its process with it. The work is not the cause and can be done elsewhere. */
export class DeviceGoneError extends Error {
  override readonly name = 'DeviceGoneError';
  readonly code = 'device_gone';
  readonly retryable = true;
}

/**
 * Codes of the CUDA runtime (cudaError_t) that describe the device and not the work: initialization, driver too
 * old, devices unavailable, no device, no such device, uncorrectable ECC and NVLink errors, an error of the
 * operating system, system not ready, driver mismatch, unknown (a GPU that has fallen off the bus).
 */
const GONE: ReadonlySet<number> = new Set([3, 35, 46, 100, 101, 214, 220, 304, 802, 803, 999]);
/** Names of the same errors, which onnxruntime prints instead of the numbers in some messages. */
const GONE_NAMES =
  /cudaError(InitializationError|InsufficientDriver|DevicesUnavailable|NoDevice|InvalidDevice|ECCUncorrectable|NvlinkUncorrectable|OperatingSystem|SystemNotReady|SystemDriverMismatch|Unknown)\b/;
/** Running out of memory leaves the device and the process usable. */
const OUT_OF_MEMORY = /CUDA failure 2:|cudaErrorMemoryAllocation/;
const ANY = /\b(CUDA|CUDNN|CUBLAS|CUFFT|CURAND) (failure \d+|error cuda)/;

/** Returns the device fault that an error of onnxruntime reports; undefined if it reports none. */
export function deviceFaultOf(message: string): DeviceFault | undefined {
  const code = /CUDA failure (\d+)/.exec(message)?.[1];
  if ((code !== undefined && GONE.has(Number(code))) || GONE_NAMES.test(message)) return 'gone';
  return ANY.test(message) && !OUT_OF_MEMORY.test(message) ? 'broken' : undefined;
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
