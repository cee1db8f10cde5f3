import { readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { missingDevice, nvidiaDevices } from '@semblance/engine-api/device-fault';
import { expect, it, vi } from 'vitest';
import { deviceFiles } from './settings.ts';

vi.mock('node:fs', async (original) => ({
  ...(await original<typeof import('node:fs')>()),
  readdirSync: vi.fn(),
}));

it('the devices of a machine are those that are there', () => {
  const dev = vi.mocked(readdirSync);
  dev.mockReturnValueOnce(['nvidia0', 'nvidia12', 'nvidiactl', 'nvidia-uvm', 'null'] as never);
  expect(nvidiaDevices()).toEqual(['/dev/nvidia0', '/dev/nvidia12']);
  expect(dev).toHaveBeenLastCalledWith('/dev');
  dev.mockImplementationOnce(() => {
    throw new Error('ENOENT');
  });
  expect(nvidiaDevices()).toEqual([]);
});

it('a device that is missing is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-devices-'));
  try {
    const files = ['nvidia0', 'nvidia12'].map((name) => join(folder, name));
    for (const file of files) await writeFile(file, '');
    expect(missingDevice(files)).toBeUndefined();
    await rm(join(folder, 'nvidia12'));
    expect(missingDevice(files)).toBe(`the device ${join(folder, 'nvidia12')} is gone`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it('an engine that runs on the CPU needs no device unless it is told so', () => {
  expect(deviceFiles(undefined, 'cpu')).toEqual([]);
  expect(deviceFiles(['/dev/dxg'], 'cpu')).toEqual(['/dev/dxg']);
  expect(deviceFiles([], 'cuda,cpu')).toEqual([]);
});
