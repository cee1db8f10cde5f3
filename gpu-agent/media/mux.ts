import { rm } from 'node:fs/promises';
import { COPIED_AUDIO, inputArgs } from './formats.ts';
import type { Kit } from './kit.ts';
import { TICKS_PER_SECOND } from './mp4-times.ts';
import type { Sound } from './probe.ts';
import { processing } from './writer.ts';

/** FLAC in MP4 is a standard that this muxer still calls an experiment. */
const COPY = ['-c:a', 'copy', '-strict', 'experimental'];

/** Puts picture and sound into one MP4 whose index comes first, and gives the last frame its length. */
export async function addSound(
  kit: Kit,
  options: {
    readonly video: string;
    readonly sound: (Sound & { readonly path: string }) | undefined;
    readonly to: string;
    readonly frames: number;
    readonly lastFrameUs: number;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { sound, signal } = options;
  const attempt = async (codec: string[]) => {
    const last = Math.round((options.lastFrameUs * TICKS_PER_SECOND) / 1e6);
    const args = [
      ...['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', '-copyts'],
      ...['-protocol_whitelist', 'file', '-f', 'nut', '-i', `file:${options.video}`],
      ...(sound ? ['-itsoffset', `${-sound.zeroUs}us`, ...inputArgs(sound.path)] : []),
      ...['-map', '0:v:0', '-c:v', 'copy'],
      ...['-bsf:v', `setts=duration=if(eq(N\\,${options.frames - 1})\\,${last}\\,DURATION)`],
      ...(sound ? ['-map', `1:${sound.stream}`, ...codec] : []),
      ...['-map_metadata', '-1', '-map_chapters', '-1', '-video_track_timescale', String(TICKS_PER_SECOND)],
      ...['-movflags', '+faststart', '-f', 'mp4', `file:${options.to}`],
    ];
    await using tool = await kit.start('ffmpeg', args, { signal, limits: { cpuSec: 3_600, fileMib: 8_192 } });
    tool.stdout.resume();
    const exit = await tool.exited;
    signal.throwIfAborted();
    return exit;
  };
  const encode = ['-c:a', 'aac', '-b:a', '160k', '-max_error_rate', '1'];
  let exit = await attempt(sound && COPIED_AUDIO.has(sound.codec) ? COPY : encode);
  // Some sound that MP4 could carry is stored in a way that cannot be taken over as it is.
  if (exit.code !== 0 && sound) exit = await attempt(encode);
  if (exit.code !== 0) {
    await rm(options.to, { force: true });
    throw processing('Picture and sound could not be put into one file.', exit.stderr || exit.signal);
  }
}
