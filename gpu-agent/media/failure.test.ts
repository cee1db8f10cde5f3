import { expect, it } from 'vitest';
import { unfinished } from './failure.ts';
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

it('what damage ended is left to those who know how much was decoded', () => {
  expect(unfinished(exit('[h264 @ 0x55d0] error while decoding MB 3 4\n'), 'The video')).toBeUndefined();
});
