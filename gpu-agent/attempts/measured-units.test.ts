import { silentLogger } from '@semblance/common/logging';
import type { RenderResult } from '@semblance/engine-api/engine';
import { describe, expect, it } from 'vitest';
import { isMeasurable, measureOutput, type VideoMeter } from './measured-units.ts';

const size = { width: 64, height: 48 };
const meter: VideoMeter = async (_path, _signal, onDecoded) => {
  onDecoded?.(1.001);
  return { frames: 50, durationMs: 2_002, size };
};

async function measured(
  capability: 'face-swap' | 'face-swap-image',
  units: RenderResult['units'],
  by: VideoMeter | undefined = meter,
) {
  let corrections = 0;
  const parts: number[] = [];
  const result = { outputPath: '/out', contentType: '', units, stages: [], details: {} };
  const measured = await measureOutput(capability, result, {
    meter: by,
    signal: new AbortController().signal,
    logger: silentLogger(),
    onCorrection: () => corrections++,
    onMeasured: (fraction) => parts.push(fraction),
  });
  return { ...measured, corrections, parts };
}

describe('what an output is charged by', () => {
  it.each([
    ['said rightly', 2.002, 0, 0.5],
    ['a millisecond too much', 2.003, 1, 1.001 / 2.003],
    ['an hour', 3_600, 1, 1.001 / 3_600],
    ['next to nothing', 0.001, 1, 1_001],
  ])('is measured on the file of a video: %s', async (_what, quantity, corrections, part) => {
    const { parts, ...rest } = await measured('face-swap', { unit: 'second', quantity });
    expect(rest).toEqual({ milliUnits: 2_002, size, corrections });
    expect(parts).toHaveLength(1);
    expect(parts[0]).toBeCloseTo(part, 9);
  });

  it('is one image for a picture, however many it was said to be', async () => {
    const image = (quantity: number) => measured('face-swap-image', { unit: 'image', quantity }, undefined);
    expect(await image(1)).toEqual({ milliUnits: 1_000, corrections: 0, parts: [] });
    expect(await image(500)).toEqual({ milliUnits: 1_000, corrections: 1, parts: [] });
  });

  it.each([
    ['in the unit of another capability', 'face-swap', { unit: 'image', quantity: 1 }],
    ['as no number', 'face-swap', { unit: 'second', quantity: Number.NaN }],
    ['as nothing', 'face-swap-image', { unit: 'image', quantity: 0 }],
  ] as const)('is not what was said %s', async (_how, capability, units) => {
    await expect(measured(capability, units)).rejects.toThrow('unusable billing units');
  });

  it('cannot be told of videos without media tools', async () => {
    expect([isMeasurable('face-swap', undefined), isMeasurable('face-swap', meter)]).toEqual([false, true]);
    expect(isMeasurable('face-swap-image', undefined)).toBe(true);
    const claim = { unit: 'second', quantity: 2 } as const;
    const result = { outputPath: '/out', contentType: '', units: claim, stages: [], details: {} };
    const options = { meter: undefined, signal: new AbortController().signal, logger: silentLogger() };
    const measuring = measureOutput('face-swap', result, { ...options, onCorrection: () => {} });
    await expect(measuring).rejects.toThrow('no media tools');
  });
});
