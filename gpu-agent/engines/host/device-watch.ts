import { DeviceGoneError, missingDevice } from '@semblance/engine-api/device-fault';

const CHECK_MS = 1_000;

export interface DeviceWatchOptions {
  /** Paths of the device files that an engine needs. */
  readonly devices: readonly string[];
  /** Called when a device file has disappeared. */
  readonly onMissing: (reason: string) => void;
  /** Called once when the devices become unusable, for whatever reason. */
  readonly onLost: (reason: string) => void;
}

/** Watches the devices of an engine. */
export interface DeviceWatch {
  /** Why a device is unusable; undefined when all are usable or none is needed. */
  readonly trouble: string | undefined;
  /** Whether a device had a fault in this agent's life. */
  readonly hadFault: boolean;
  /** @throws DeviceGoneError when a device file is missing */
  assertPresent(): void;
  /** Records that a process found its device unusable. */
  lost(reason: string): void;
  /** Records that a process works on the device. Returns whether the device was unusable before. */
  restored(): boolean;
  close(): void;
}

export function createDeviceWatch({ devices, onMissing, onLost }: DeviceWatchOptions): DeviceWatch {
  let trouble: string | undefined;
  let hadFault = false;
  const checking = devices.length > 0 ? setInterval(check, CHECK_MS) : undefined;

  function check(): void {
    const missing = missingDevice(devices);
    if (missing === undefined || trouble !== undefined) return;
    reportLost(missing);
    onMissing(missing);
  }

  function reportLost(reason: string): void {
    if (trouble !== undefined) return;
    hadFault = true;
    trouble = reason;
    onLost(reason);
  }

  return {
    get trouble() {
      return trouble;
    },
    get hadFault() {
      return hadFault;
    },
    assertPresent() {
      const missing = missingDevice(devices);
      if (missing === undefined) return;
      reportLost(missing);
      throw new DeviceGoneError(missing);
    },
    lost: reportLost,
    restored() {
      const was = trouble !== undefined;
      trouble = undefined;
      return was;
    },
    close: () => clearInterval(checking),
  };
}
