import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { expect, test } from 'vitest';
import { slotsOn, slotTimeOf } from './slot-time.ts';

const job = (status: object, metadata: object = {}) =>
  ({ metadata, spec: { capability: 'face-swap' }, status }) as unknown as RenderJob;

const T = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();

test.each([
  ['finished', job({ startTime: T(1), completionTime: T(4) }), 3_000],
  ['deleted while it ran', job({ startTime: T(1) }, { deletionTimestamp: T(3) }), 2_000],
  ['not begun', job({ completionTime: T(4) }), undefined],
  ['running', job({ startTime: T(1) }), undefined],
  ['ended before it began by another clock', job({ startTime: T(4), completionTime: T(1) }), undefined],
])('the slot time of a job that is %s', (_, renderJob, ms) => {
  expect(slotTimeOf(renderJob)).toBe(ms);
  expect(slotTimeOf(renderJob, 2)).toBe(ms && 2 * ms);
});

test('slots are those of the engine that the agent uses, 1 without it', () => {
  const engines = [
    { capabilities: [{ name: 'avatar', slots: 5 }] },
    { capabilities: [{ name: 'face-swap', slots: 2 }] },
    { capabilities: [{ name: 'face-swap', slots: 3 }] },
  ];
  const agent = { status: { engines } } as unknown as GpuAgent;
  expect(slotsOn(agent, job({}))).toBe(2);
  expect(slotsOn(undefined, job({}))).toBe(1);
});
