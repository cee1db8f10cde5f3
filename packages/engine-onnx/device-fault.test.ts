import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deviceFaultOf, missingDevice, nvidiaDevices } from '@semblance/engine-api/device-fault';
import { describe, expect, it } from 'vitest';
import { deviceFiles } from './settings.ts';

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

it('the devices of a machine are those that are there, and what is missing is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-devices-'));
  try {
    for (const name of ['nvidia0', 'nvidia12', 'nvidiactl', 'nvidia-uvm', 'null'])
      await writeFile(join(folder, name), '');
    const devices = nvidiaDevices(folder);
    expect(devices.sort()).toEqual([join(folder, 'nvidia0'), join(folder, 'nvidia12')]);
    expect(missingDevice(devices)).toBeUndefined();
    await rm(join(folder, 'nvidia12'));
    expect(missingDevice(devices)).toBe(`the device ${join(folder, 'nvidia12')} is gone`);
    expect(nvidiaDevices(join(folder, 'none'))).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it('an engine that runs on the CPU needs no device unless it is told so', () => {
  expect(deviceFiles(undefined, 'cpu')).toEqual([]);
  expect(deviceFiles(['/dev/dxg'], 'cpu')).toEqual(['/dev/dxg']);
  expect(deviceFiles([], 'cuda,cpu')).toEqual([]);
});
