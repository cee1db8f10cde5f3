import { RenderError } from '@semblance/engine-api/engine';
import { interrupted, lacksDecoder } from './failure.ts';
import { COPIED_AUDIO, inputArgs } from './formats.ts';
import type { Kit } from './kit.ts';
import { measureWritten } from './measure.ts';
import { TICKS_PER_SECOND } from './mp4-times.ts';
import type { Sound } from './probe.ts';
import type { WrittenVideo } from './types.ts';

/** FLAC in MP4 is a standard that this muxer still calls experimental. */
const COPY = ['-c:a', 'copy', '-strict', 'experimental'];
const ENCODE = ['-c:a', 'aac', '-b:a', '160k', '-max_error_rate', '1'];

export interface Whole {
  /** The encoded picture, in NUT. */
  readonly video: string;
  readonly sound: (Sound & { readonly path: string }) | undefined;
  /** Path of the MP4 to write. */
  readonly to: string;
  readonly frames: number;
  readonly lastFrameUs: number;
  readonly signal: AbortSignal;
}

/**
 * Combines picture and sound into one MP4 whose index comes first, sets the length of the last frame, and measures
 * the result.
 * @throws RenderError unsupported_format for sound that can neither be copied nor decoded
 */
export async function finishFile(kit: Kit, whole: Whole): Promise<WrittenVideo> {
  const { sound } = whole;
  if (!sound) return attempt(kit, whole, []);
  if (!COPIED_AUDIO.has(sound.codec)) return attempt(kit, whole, ENCODE);
  try {
    return await attempt(kit, whole, COPY);
  } catch (error) {
    if (!(error instanceof RenderError)) throw error;
    // Some sound that MP4 could carry is damaged, or stored in a way that cannot be copied.
    return attempt(kit, whole, ENCODE);
  }
}

async function attempt(kit: Kit, whole: Whole, codec: readonly string[]): Promise<WrittenVideo> {
  const { sound, signal, to } = whole;
  const last = Math.round((whole.lastFrameUs * TICKS_PER_SECOND) / 1e6);
  const args = [
    ...['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', '-copyts'],
    ...['-protocol_whitelist', 'file', '-f', 'nut', '-i', `file:${whole.video}`],
    ...(sound ? ['-itsoffset', `${-sound.zeroUs}us`, ...inputArgs(sound.path)] : []),
    ...['-map', '0:v:0', '-c:v', 'copy'],
    ...['-bsf:v', `setts=duration=if(eq(N\\,${whole.frames - 1})\\,${last}\\,DURATION)`],
    ...(sound ? ['-map', `1:${sound.stream}`, ...codec] : []),
    ...['-map_metadata', '-1', '-map_chapters', '-1', '-video_track_timescale', String(TICKS_PER_SECOND)],
    ...['-movflags', '+faststart', '-f', 'mp4', `file:${to}`],
  ];
  await using tool = await kit.start('ffmpeg', args, {
    signal,
    read: [whole.video, ...(sound ? [sound.path] : [])],
    write: [to],
    limits: { cpuSec: 3_600, fileMib: 8_192 },
  });
  tool.stdout.resume();
  const exit = await tool.exited;
  signal.throwIfAborted();
  const fault = interrupted(exit);
  if (fault) throw fault;
  // This muxer fails at the end of a file without setting an exit status.
  if (exit.code !== 0 || exit.stderr.includes('Error writing trailer')) {
    const cause = exit.stderr || exit.signal;
    if (sound && codec !== COPY) {
      const why = lacksDecoder(exit)
        ? 'is of a kind that is not accepted'
        : 'is damaged and cannot be decoded';
      throw new RenderError('unsupported_format', `The sound ${why}.`, { cause });
    }
    throw new RenderError('processing_failed', 'Picture and sound could not be put into one file.', {
      cause,
    });
  }
  const measured = await measureWritten(kit, to, signal);
  if (measured.frames !== whole.frames) {
    throw new RenderError(
      'processing_failed',
      `The file written has ${measured.frames} frames instead of ${whole.frames}.`,
    );
  }
  return measured;
}
