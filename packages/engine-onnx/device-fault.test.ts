import { readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deviceFaultOf, missingDevice, nvidiaDevices } from '@semblance/engine-api/device-fault';
import { describe, expect, it, vi } from 'vitest';
import { deviceFiles } from './settings.ts';

vi.mock('node:fs', async (original) => ({
  ...(await original<typeof import('node:fs')>()),
  readdirSync: vi.fn(),
}));

describe('what an error says of the device', () => {
  it.each([
    [
      'CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; expr=cudaSetDevice(info_.device_id);',
      'gone',
    ],
    ['CUDA failure 999: unknown error ; GPU=0 ; hostname=n1 ; file=cuda_execution_provider.cc', 'gone'],
    ['swapper failed: CUDA failure 46: all CUDA-capable devices are busy or unavailable ; GPU=0', 'gone'],
    ['CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=1', 'gone'],
    ['Status Message: CUDA error cudaErrorNoDevice:no CUDA-capable device is detected', 'gone'],
    ['CUDA failure 719: unspecified launch failure ; GPU=0', 'broken'],
    ['CUDA failure 700: an illegal memory access was encountered ; GPU=0', 'broken'],
    ['CUBLAS failure 13: the GPU program failed to execute ; GPU=0', 'broken'],
    ['CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED ; GPU=0', 'broken'],
    ['CUDA error cudaErrorIllegalAddress:an illegal memory access was encountered', 'broken'],
    ['CUDA failure 2: out of memory ; GPU=0', undefined],
    ['CUDA error cudaErrorMemoryAllocation:out of memory', undefined],
    ['The picture shows no CUDA, and no failure.', undefined],
    ['a session thread ended with code 1', undefined],
  ])('%s', (message, fault) => {
    expect(deviceFaultOf(message)).toBe(fault);
  });
});

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
