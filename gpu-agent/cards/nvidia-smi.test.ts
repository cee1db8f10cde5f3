import { describe, expect, it } from 'vitest';
import { parseCards, parseProcesses } from './nvidia-smi.ts';

const A = 'GPU-4c6c0ba6-1111-4000-8000-0123456789ab';
const B = 'GPU-5d7d1cb7-2222-4000-8000-0123456789ab';

describe('the answers of nvidia-smi', () => {
  it('tell of cards and processes', () => {
    expect(parseCards(`${A}, 24576, 1501\n${B}, 81559, 0\n`)).toEqual([
      { uuid: A, totalMib: 24_576, usedMib: 1_501 },
      { uuid: B, totalMib: 81_559, usedMib: 0 },
    ]);
    expect(parseProcesses(`${A}, 812, 1012\n${B}, 812, 300\n${A}, 4194000, [N/A]\n`)).toEqual([
      { uuid: A, pid: 812, usedMib: 1_012 },
      { uuid: B, pid: 812, usedMib: 300 },
      { uuid: A, pid: 4_194_000, usedMib: undefined },
    ]);
    expect(parseProcesses('')).toEqual([]);
  });

  it('leave out a card whose memory is not told', () => {
    expect(parseCards(`${A}, [N/A], [N/A]\n${B}, 81559, [Insufficient Permissions]\n`)).toEqual([]);
  });

  it.each([
    ['No devices were found', /answered «No devices were found»/],
    [`${A}, 812`, /answered/],
    [`0, 812, 1012`, /answered/],
    [`${A}, x, 1012`, /the process «x»/],
    [`${A}, 812, lots`, /a memory of «lots»/],
  ])('are refused when they are none: %s', (text, fault) => {
    expect(() => parseProcesses(text)).toThrow(fault);
  });
});
