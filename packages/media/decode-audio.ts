import { RenderError } from '@semblance/engine-api/engine';
import { ByteReader } from './byte-reader.ts';
import { unfinished } from './failure.ts';
import { inputArgs } from './formats.ts';
import { unsupported } from './headers.ts';
import type { Kit } from './kit.ts';
import type { Sound } from './probe.ts';

/**
 * Yields mono sound from the start of the file's picture, or of the sound itself without a picture. Earlier sound
 * is cut; a later start and pauses become silence. @throws RenderError
 */
export async function* decodeAudio(
  kit: Kit,
  path: string,
  sound: Sound | undefined,
  options: { readonly sampleRate: number; readonly signal: AbortSignal },
): AsyncGenerator<Float32Array> {
  if (!sound) throw unsupported('The file has no sound track that can be decoded.');
  const { sampleRate, signal } = options;
  const filter = [
    `asetpts=PTS-(${sound.zeroUs}/1000000)/TB`,
    `aresample=${sampleRate}:async=1:first_pts=0`,
    'aformat=sample_fmts=flt:channel_layouts=mono',
  ].join(',');
  const args = [
    ...['-hide_banner', '-nostdin', '-loglevel', 'error', '-max_error_rate', '1', '-threads', '1'],
    ...['-copyts', ...inputArgs(path), '-map', `0:${sound.stream}`, '-map_metadata', '-1'],
    ...['-af', filter, '-c:a', 'pcm_f32le', '-f', 'f32le', 'pipe:1'],
  ];
  await using tool = await kit.start('ffmpeg', args, { signal, read: [path], limits: { cpuSec: 600 } });
  const reader = new ByteReader(kit.patient(tool, tool.stdout));
  let samples = 0;
  for (;;) {
    const chunk = new Float32Array(sampleRate);
    const filled = await reader.fillUpTo(new Uint8Array(chunk.buffer));
    const count = Math.floor(filled / 4);
    if (count > 0) {
      samples += count;
      if (samples > sampleRate * (kit.limits.maxDurationSec + 1)) {
        throw new RenderError(
          'input_too_large',
          'The sound goes on for longer than it says, and longer than is taken.',
        );
      }
      yield count === sampleRate ? chunk : chunk.subarray(0, count);
    }
    if (count < sampleRate) break;
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  const failure = unfinished(exit, 'The sound');
  if (failure) throw failure;
  if (samples === 0) throw unsupported('Nothing of the sound can be decoded: it is damaged.', exit.stderr);
}
