import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { AttemptOutput, AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import {
  ago,
  bound,
  decide,
  FAILED,
  INTERRUPTED,
  jobOf,
  NOW,
  output,
  RUNNING,
  report,
  SUCCEEDED,
} from '@semblance/testkit/operator/decisions';
import { describe, expect, it } from 'vitest';

type Capability = RenderJob['spec']['capability'];
const PHOTO = 'face-swap-image';

describe('when it began', () => {
  it.each([
    [SUCCEEDED, { output }, {}],
    [FAILED, {}, {}],
    [INTERRUPTED, {}, { spec: { backoffLimit: 0 } }],
  ])('is said with the end of what was never written as running: %s', (state, more, overrides) => {
    const status = (before: RenderJobStatus) =>
      decide(jobOf(before, overrides), { facts: { report: report(state, more) } }).status;
    expect(status(bound('Assigned'))).toMatchObject({ startTime: ago(5), completionTime: ago(0) });
    expect(status(bound('Running', { startTime: ago(7) }))).toMatchObject({ startTime: ago(7) });
  });

  it.each([
    ['of the future', NOW + 1],
    ['of long ago', NOW - 60_000],
  ])('is now where its agent says a time %s', (_, at) => {
    const started = report(RUNNING, { startedAtMs: BigInt(at) });
    expect(decide(jobOf(bound('Assigned')), { facts: { report: started } }).status?.startTime).toBe(ago(0));
  });
});

describe('an output', () => {
  it('shows the time left in whole seconds, and no longer than it is known', () => {
    const running = jobOf(bound('Running'));
    const at = (etaSeconds?: number) => report(RUNNING, { progress: 0.42, stage: 'swap', etaSeconds });
    expect(decide(running, { facts: { report: at(12.3) } }).status?.etaSeconds).toBe(13);
    expect(decide(running, { facts: { report: at(Number.POSITIVE_INFINITY) } }).status).not.toHaveProperty(
      'etaSeconds',
    );
    expect(decide(running, { facts: { report: at(1e12) } }).status?.etaSeconds).toBe(604_800);
    const before = jobOf({ ...bound('Running'), etaSeconds: 13 });
    expect(decide(before, { facts: { report: at() } }).status).not.toHaveProperty('etaSeconds');
    const over = report(SUCCEEDED, { output });
    expect(decide(before, { facts: { report: over } }).status).not.toHaveProperty('etaSeconds');
  });

  it('never writes what the schema would refuse, whatever an agent says', () => {
    const wild = report(RUNNING, { progress: Number.NaN, stage: 's'.repeat(500), startedAtMs: -5n });
    expect(decide(jobOf(bound('Assigned')), { facts: { report: wild } }).status).toMatchObject({
      progress: '0%',
      stage: 's'.repeat(64),
      startTime: ago(0),
    });
    const huge = report(SUCCEEDED, {
      output: {
        ...output,
        engine: 'e'.repeat(500),
        sha256Hex: 'f'.repeat(500),
        stages: Array.from({ length: 99 }, () => ({
          name: 'n'.repeat(99),
          milliseconds: -3.7,
          engine: 'o'.repeat(99),
        })),
      },
    });
    const written = decide(jobOf(bound('Running')), { facts: { report: huge } }).status?.output;
    expect(written?.engine).toHaveLength(64);
    expect(written?.sha256).toHaveLength(64);
    expect(written?.stages).toHaveLength(32);
    expect(written?.stages?.[0]).toEqual({
      name: `${'n'.repeat(63)}…`,
      milliseconds: 0,
      engine: `${'o'.repeat(63)}…`,
    });
  });

  it('has what the engine found out, cut to what the schema takes', () => {
    const written = (findings: AttemptOutput['findings']) => {
      const over = report(SUCCEEDED, { output: { ...output, findings } });
      return decide(jobOf(bound('Running')), { facts: { report: over } }).status?.output?.findings;
    };
    const found = {
      faces: { found: 3, changed: 2, left: [{ reason: 'bystander', count: 1 }] },
      hints: [{ code: 'face_small', message: 'The face is small.', input: 'face' }],
      models: [{ name: 'swapper-a', sha256: 'ab'.repeat(32), licence: 'MIT' }],
      options: { likeness: '0.4' },
      mapped: [
        { id: 'face-1', input: 'face_of_1', frames: 3 },
        { id: 'face-2', frames: 0 },
      ],
    };
    expect(written(found)).toEqual(found);
    expect(written({ hints: [], models: [], options: {}, mapped: [] })).toEqual({ hints: [] });
    expect(written(undefined)).toBeUndefined();
    const left = Array.from({ length: 99 }, () => ({ reason: 'bystander', count: -1 }));
    const hints = Array.from({ length: 99 }, () => ({
      code: 'a',
      message: 'm'.repeat(999),
      input: 'i'.repeat(99),
    }));
    const cut = written({
      faces: { found: -1, changed: -1, left: [{ reason: 'No Code', count: 1 }, ...left] },
      hints: [{ code: '', message: '' }, ...hints],
      models: [
        { name: 'm', sha256: 'AB', licence: 'l' },
        ...Array.from({ length: 99 }, () => ({
          name: 'n'.repeat(99),
          sha256: 'ab'.repeat(32),
          licence: 'l'.repeat(999),
        })),
      ],
      mapped: Array.from({ length: 99 }, () => ({ id: 'i'.repeat(99), frames: -1 })),
      options: Object.fromEntries([
        ['No Name', '1'],
        ...Array.from({ length: 99 }, (_, i) => [`o${i}`, 'v'.repeat(3_000)]),
      ]),
    });
    expect(Object.keys(cut?.options ?? {})).toHaveLength(32);
    expect(cut?.options).not.toHaveProperty('No Name');
    expect(cut?.options?.o0).toHaveLength(2_000);
    expect(cut?.models).toHaveLength(16);
    expect(cut?.models?.[0]).toEqual({
      name: `${'n'.repeat(63)}…`,
      sha256: 'ab'.repeat(32),
      licence: `${'l'.repeat(199)}…`,
    });
    expect(cut?.faces).toMatchObject({ found: 0, changed: 0 });
    expect(cut?.faces?.left).toEqual(left.slice(0, 8).map(({ reason }) => ({ reason, count: 0 })));
    expect(cut?.hints).toHaveLength(8);
    expect(cut?.hints[0]).toEqual({ code: 'a', message: `${'m'.repeat(299)}…`, input: `${'i'.repeat(31)}…` });
  });

  describe('that is not there', () => {
    const of = (code: string) => ({ hints: [{ code, message: 'The face is turned.', input: 'face' }] });
    const said = (code: string) => ({ ...of(code), models: [], options: {}, mapped: [] });
    const failure = (findings?: AttemptOutput['findings']) => ({
      failure: { code: 'face_not_detected', message: 'No face.', findings },
    });
    const after = (
      state: AttemptState,
      findings: AttemptOutput['findings'],
      { before, ...spec }: { before?: RenderJobStatus['findings']; backoffLimit?: number } = {},
    ) => {
      const facts = { report: report(state, failure(findings)) };
      return decide(jobOf(bound('Running', { findings: before }), { spec }), { facts }).status;
    };

    it('leaves what the engine found out, cut to what the schema takes', () => {
      const refused = after(FAILED, said('face_turned'));
      expect(refused).toMatchObject({ phase: 'Failed', findings: of('face_turned') });
      expect(refused?.failure).toEqual({ code: 'face_not_detected', message: 'No face.' });
      expect(after(FAILED, said('No Code'))?.findings).toEqual({ hints: [] });
      expect(after(FAILED, undefined)?.findings).toBeUndefined();
    });

    it('leaves what was found out in the last attempt that found out anything', () => {
      const before = of('face_small');
      expect(after(INTERRUPTED, said('face_turned'), { before })).toMatchObject({
        phase: 'Pending',
        findings: of('face_turned'),
      });
      expect(after(INTERRUPTED, undefined, { before })).toMatchObject({ phase: 'Pending', findings: before });
      expect(after(INTERRUPTED, undefined, { before, backoffLimit: 0 })).toMatchObject({
        phase: 'Failed',
        findings: before,
      });
      expect(after(INTERRUPTED, said('face_turned'), { before, backoffLimit: 0 })).toMatchObject({
        phase: 'Failed',
        findings: of('face_turned'),
      });
      expect(after(FAILED, undefined, { before })?.findings).toEqual(before);
    });

    it('leaves nothing when a later attempt has one', () => {
      const facts = { report: report(SUCCEEDED, { output }) };
      const { status } = decide(jobOf(bound('Running', { findings: of('face_small') })), { facts });
      expect(status?.phase).toBe('Succeeded');
      expect(status).not.toHaveProperty('findings');
    });
  });

  const second = { unit: 'second', milliUnits: 1_500n } as const;
  const video = { ...second, key: 'out/u1/2.mp4', contentType: 'video/mp4' } as const;
  it.each<[string, Capability, Partial<AttemptOutput>, 'taken' | 'refused']>([
    ['under the key of its type', PHOTO, { key: 'out/u1/2.webp', contentType: 'image/webp' }, 'taken'],
    ['under the key of another type', PHOTO, { key: 'out/u1/2.png' }, 'refused'],
    ['under a key that only begins as its own', PHOTO, { key: 'out/u1/2.jpg/../../3.jpg' }, 'refused'],
    ['under a key with a blank', PHOTO, { key: 'out/u1/2.j pg' }, 'refused'],
    ['of another attempt', PHOTO, { key: 'out/u1/1.jpg' }, 'refused'],
    ['of another job', PHOTO, { key: 'out/u2/2.jpg' }, 'refused'],
    ['without a key', PHOTO, { key: '' }, 'refused'],
    ['of a type it was given no place for', PHOTO, { contentType: 'video/mp4' }, 'refused'],
    ['of a type named as a property of every object', PHOTO, { contentType: 'constructor' }, 'refused'],
    ['of no known unit', PHOTO, { unit: 'banana' }, 'refused'],
    ['of a picture in seconds', PHOTO, second, 'refused'],
    ['of a video in seconds', 'face-swap', video, 'taken'],
    ['of a video in images', 'face-swap', { ...video, unit: 'image', milliUnits: 1_000n }, 'refused'],
    ['of a video of a day', 'face-swap', { ...video, milliUnits: 86_400_000n }, 'taken'],
    ['of a video longer than that', 'face-swap', { ...video, milliUnits: 86_400_001n }, 'refused'],
    ['of a picture that counts as two', PHOTO, { milliUnits: 2_000n }, 'refused'],
    ['of a measure beyond all numbers', PHOTO, { milliUnits: 2n ** 60n }, 'refused'],
    ['of a negative measure', PHOTO, { milliUnits: -1n }, 'refused'],
    ['of a negative size', PHOTO, { sizeBytes: -1n }, 'refused'],
  ])('%s', (_, capability, wrong, expected) => {
    const job = jobOf(bound('Running'), { spec: { capability } });
    const { short, status } = decide(job, {
      facts: { report: report(SUCCEEDED, { output: { ...output, ...wrong } }) },
    });
    expect(short[0]).toBe(expected === 'taken' ? 'Succeeded/Succeeded' : 'Pending/Interrupted');
    expect(status?.output !== undefined).toBe(expected === 'taken');
  });
});
