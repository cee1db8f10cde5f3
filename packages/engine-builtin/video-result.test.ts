import { expect, it } from 'vitest';
import { videoResult } from './video-result.ts';

it('charges the length of the written video, and counts its frames among the details', () => {
  const findings = { hints: [] };
  const rest = { stages: [{ name: 'draw', milliseconds: 5 }], details: { shots: 2 }, findings };
  expect(videoResult('out/output.mp4', { frames: 27, durationMs: 1080 }, rest)).toEqual({
    outputPath: 'out/output.mp4',
    contentType: 'video/mp4',
    units: { unit: 'second', quantity: 1.08 },
    stages: rest.stages,
    details: { frames: 27, shots: 2 },
    findings,
  });
});
