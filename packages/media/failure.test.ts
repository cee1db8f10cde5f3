import { expect, it } from 'vitest';
import { stopped, unfinished } from './failure.ts';
import type { ToolExit } from './sandbox.ts';

const exit = (stderr: string): ToolExit => ({ code: 1, signal: null, ended: undefined, stderr });

it.each([
  'Decoder (codec cinepak) not found for input stream #0:0\n',
  'a line before\n[vist#0:0/cinepak @ 0x55d0] Decoding requested, but no decoder found for: cinepak\n',
])('what an ffmpeg has no decoder for is no damaged file: %s', (stderr) => {
  expect(unfinished(exit(stderr), 'The video')).toMatchObject({
    code: 'unsupported_format',
    message: 'The video is of a kind that is not accepted.',
  });
});

it('what took too much processor time is too large', () => {
  expect(unfinished({ ...exit(''), ended: 'cpu' }, 'The video')).toMatchObject({
    code: 'input_too_large',
    message: 'The video takes too long to decode.',
  });
});

it('what stood still or was not done in time, on a machine without time for it, is tried again', () => {
  const killed: ToolExit = { code: null, signal: 'SIGKILL', ended: 'killed', stderr: '' };
  for (const failure of [unfinished(killed, 'The video'), stopped(killed, 'The file')])
    expect(failure).toMatchObject({ code: 'engine_interrupted', retryable: true });
});

it('what damage ended is left to those who know how much was decoded', () => {
  expect(unfinished(exit('[h264 @ 0x55d0] error while decoding MB 3 4\n'), 'The video')).toBeUndefined();
});
