import { findOnPath } from '@semblance/common/process/find-on-path';
import { exhausted } from '@semblance/engine-api/exhausted';
import { askTool, findIsolationOf, type Isolation } from './isolation.ts';

/** The ffmpeg of this machine and its abilities. */
export interface MediaTools {
  readonly available: true;
  readonly ffmpeg: string;
  readonly ffprobe: string;
  /** As ffmpeg states it, such as `5.1.9-0+deb12u1`. */
  readonly version: string;
  readonly isolation: Isolation;
  /** Whether high dynamic range can be converted to standard. */
  readonly toneMapping: boolean;
}

/** Why video and sound are unavailable here. */
export interface MissingMediaTools {
  readonly available: false;
  readonly reason: string;
}

const LIBAVUTIL_OF_5_1 = [57, 28] as const;

/**
 * Finds ffmpeg and ffprobe (FFmpeg 5.1 or later, with libx264) on PATH.
 * @throws EngineInterruptedError when the machine lacks the files or processes to look, so the result is unknown
 * @throws IsolationError as `findIsolation`
 */
export async function findMediaTools(): Promise<MediaTools | MissingMediaTools> {
  const missing = (reason: string): MissingMediaTools => ({ available: false, reason });
  const ffmpeg = findOnPath('ffmpeg');
  const ffprobe = findOnPath('ffprobe');
  if (!ffmpeg || !ffprobe) {
    return missing(
      `${ffmpeg ? 'ffprobe' : 'ffmpeg'} is not on PATH (Debian and Ubuntu: apt-get install ffmpeg)`,
    );
  }
  const ofFfmpeg = await findIsolationOf(ffmpeg, ['-hide_banner', '-version']);
  const ofFfprobe = await findIsolationOf(ffprobe, ['-hide_banner', '-version']);
  // Both run behind the same walls, so those of the one with fewer.
  const isolation = ofFfmpeg.wall ? ofFfprobe : ofFfmpeg;
  const look = (file: string, what: string) => askTool(isolation, file, ['-hide_banner', what]);
  try {
    const [version, versionOfProbe, encoders, filters] = await Promise.all([
      look(ffmpeg, '-version'),
      look(ffprobe, '-version'),
      look(ffmpeg, '-encoders'),
      look(ffmpeg, '-filters'),
    ]);
    const number = numberOf(version);
    if (isOld(version)) return missing(`${ffmpeg} is version ${number}; 5.1 or later is needed`);
    if (isOld(versionOfProbe))
      return missing(`${ffprobe} is version ${numberOf(versionOfProbe)}; 5.1 or later is needed`);
    for (const encoder of ['libx264', 'aac']) {
      if (!new RegExp(`^ \\S+ ${encoder} `, 'm').test(encoders)) {
        return missing(`${ffmpeg} was built without the encoder ${encoder}`);
      }
    }
    const has = (filter: string) => new RegExp(`^ \\S+ ${filter} `, 'm').test(filters);
    const toneMapping = has('zscale') && has('tonemap');
    return { available: true, ffmpeg, ffprobe, version: number, isolation, toneMapping };
  } catch (error) {
    const lack = exhausted(error);
    if (lack) throw lack;
    return missing(`${ffmpeg} does not run: ${error instanceof Error ? error.message : String(error)}`);
  }
}

const numberOf = (version: string) => /version (\S+)/.exec(version)?.[1] ?? 'unknown';

/** Returns whether a build is older than FFmpeg 5.1, by its libavutil, because builds of commits have no number. */
function isOld(version: string): boolean {
  const [, major, minor] = /^libavutil +(\d+)\. *(\d+)/m.exec(version) ?? [];
  const [oldestMajor, oldestMinor] = LIBAVUTIL_OF_5_1;
  return Number(major) < oldestMajor || (Number(major) === oldestMajor && Number(minor) < oldestMinor);
}
