import { existsSync, readdirSync } from 'node:fs';

/**
 * - gone: the device cannot be used any more, whatever is asked of it.
 * - broken: what ran failed on the device, and may have done so for what it was given. Nothing else can run in that
 *   process.
 */
export type DeviceFault = 'gone' | 'broken';

/** The device of the engine is gone, and its process with it: the work is not to blame, and can be done elsewhere. */
export class DeviceGoneError extends Error {
  override readonly name = 'DeviceGoneError';
  readonly code = 'device_gone';
  readonly retryable = true;
}

/**
 * Codes of CUDA's runtime (cudaError_t) that speak of the device and not of what ran: initialization, driver too old,
 * devices unavailable, no device, no such device, uncorrectable ECC and NVLink errors, an error of the operating
 * system, system not ready, driver mismatch, unknown (a GPU that has fallen off the bus).
 */
const GONE: ReadonlySet<number> = new Set([3, 35, 46, 100, 101, 214, 220, 304, 802, 803, 999]);
/** The same where onnxruntime writes the name in place of the number. */
const GONE_NAMES =
  /cudaError(InitializationError|InsufficientDriver|DevicesUnavailable|NoDevice|InvalidDevice|ECCUncorrectable|NvlinkUncorrectable|OperatingSystem|SystemNotReady|SystemDriverMismatch|Unknown)\b/;
/** Leaves the device and the process as they were. */
const OUT_OF_MEMORY = /CUDA failure 2:|cudaErrorMemoryAllocation/;
const ANY = /\b(CUDA|CUDNN|CUBLAS|CUFFT|CURAND) (failure \d+|error cuda)/;

/** Returns what an error of onnxruntime says of the device; undefined: nothing. */
export function deviceFaultOf(message: string): DeviceFault | undefined {
  const code = /CUDA failure (\d+)/.exec(message)?.[1];
  if ((code !== undefined && GONE.has(Number(code))) || GONE_NAMES.test(message)) return 'gone';
  return ANY.test(message) && !OUT_OF_MEMORY.test(message) ? 'broken' : undefined;
}

/** The NVIDIA devices that this machine, or its container, has now. */
export function nvidiaDevices(folder = '/dev'): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^nvidia\d+$/.test(name))
      .map((name) => `${folder}/${name}`);
  } catch {
    return [];
  }
}

/** Says which of the files is not there; undefined: all are. */
export function missingDevice(files: readonly string[]): string | undefined {
  const missing = files.find((file) => !existsSync(file));
  return missing === undefined ? undefined : `the device ${missing} is gone`;
}
