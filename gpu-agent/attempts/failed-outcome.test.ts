import { DeviceGoneError } from '@semblance/engine-api/device-fault';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import { describe, expect, it } from 'vitest';
import { AssetError } from '../assets/errors.ts';
import { ContentCheckError } from '../content-check/check.ts';
import { AttemptEnded } from './endings.ts';
import { failedOutcome } from './failed-outcome.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const of = (error: unknown) => {
  const outcome = failedOutcome(error, quiet);
  if (outcome.state === 'succeeded') throw new Error('an error is no success');
  return [outcome.state, outcome.failure.code, outcome.failure.message];
};

/** Creates an error in the form that Node gives it. */
const systemError = (code: string, syscall: string) =>
  Object.assign(new Error(`${syscall} ${code}`), { code, syscall, path: '/private/path' });
const spawnError = (code: string) => systemError(code, 'spawn /private/path/ffprobe');

describe('what becomes of an attempt', () => {
  it.each([
    ['an ending that is no fault of the work', new AttemptEnded('stopped', 'the agent is ending'), 'stopped'],
    ['a device that is gone', new DeviceGoneError('no GPU'), 'stopped'],
    ['an input that cannot be rendered', new RenderError('face_not_detected', 'No face.'), 'failed'],
    ['an input that is too large', new AssetError('input_too_large', 'too large'), 'failed'],
    ['an input that does not exist', new AssetError('input_missing', 'no image'), 'failed'],
    ['a link that is refused', new AssetError('link_refused', 'answered 403'), 'interrupted'],
    ['a transfer that failed', new AssetError('transfer_failed', 'no answer'), 'interrupted'],
    ['a check that did not work', new ContentCheckError('no answer'), 'interrupted'],
    ['a fault of the moment in the engine', new EngineInterruptedError('killed'), 'interrupted'],
    ['a fault of the file system', systemError('ENOENT', 'open'), 'interrupted'],
    ['anything else', new TypeError('x is not a function'), 'failed'],
  ])('%s', (_what, error, state) => expect(of(error)[0]).toBe(state));

  it('has what the engine found out before it refused', () => {
    const findings = { hints: [{ code: 'face_turned', message: 'It is turned.', input: 'face' }] } as const;
    const refused = (more: object) =>
      failedOutcome(new RenderError('face_not_detected', 'No face.', more), quiet);
    expect(refused({ findings })).toMatchObject({ failure: { code: 'face_not_detected', findings } });
    expect(refused({})).not.toHaveProperty('failure.findings.hints');
  });

  it.each(['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'])(
    'a program that could not be started for want of something (%s): it is tried again, and no path is told',
    (code) => {
      const told = `the machine of the engine lacks something (${code}, spawn)`;
      for (const wrap of [
        (cause: unknown) => new Error('cannot start /private/path/ffprobe', { cause }),
        (cause: unknown) => new Error('twice', { cause: new Error('cannot start it', { cause }) }),
        (cause: unknown) => new RenderError('unsupported_format', 'It cannot be read.', { cause }),
      ])
        expect(of(wrap(spawnError(code)))).toEqual(['interrupted', 'processing_failed', told]);
    },
  );

  it('a program that is not there: it is not tried again', () => {
    const error = new Error('cannot start it', { cause: spawnError('ENOENT') });
    expect(of(error)[0]).toBe('failed');
  });
});
