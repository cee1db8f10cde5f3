import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { exhausted } from '@semblance/engine-api/exhausted';

const run = promisify(execFile);

/** The ffmpeg of this machine and its abilities. */
export interface MediaTools {
  readonly available: true;
  readonly ffmpeg: string;
  readonly ffprobe: string;
  /** As ffmpeg states it, such as `5.1.9-0+deb12u1`. */
  readonly version: string;
  /**
   * Arguments before a command that run it in a network namespace without an interface; empty where the kernel
   * forbids that.
   */
  readonly isolate: readonly string[];
  /** Whether high dynamic range can be converted to standard. */
  readonly toneMapping: boolean;
}

/** Why video and sound are unavailable here. */
export interface MissingMediaTools {
  readonly available: false;
  readonly reason: string;
}

const LIBAVUTIL_OF_5_1 = [57, 28] as const;

const NETWORK_NAMESPACES: readonly (readonly string[])[] = [
  ['--net'],
  ['--user', '--map-current-user', '--net'],
  ['--user', '--map-root-user', '--net'],
];

/**
 * Finds ffmpeg and ffprobe (FFmpeg 5.1 or later, with libx264) on PATH.
 * @throws EngineInterruptedError when the machine lacks the files or processes to look, so the result is unknown
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
  try {
    const [version, versionOfProbe, encoders, filters, isolate] = await Promise.all([
      output(ffmpeg, '-version'),
      output(ffprobe, '-version'),
      output(ffmpeg, '-encoders'),
      output(ffmpeg, '-filters'),
      findIsolation(),
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
    return { available: true, ffmpeg, ffprobe, version: number, isolate, toneMapping };
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

async function output(file: string, what: string): Promise<string> {
  const { stdout } = await run(file, ['-hide_banner', what], { timeout: 20_000, maxBuffer: 4 << 20 });
  return stdout;
}

/**
 * Returns the arguments before a command that give it a network namespace, where the kernel allows that.
 * @throws EngineInterruptedError when the machine lacks the files or processes to try
 */
export async function findIsolation(): Promise<readonly string[]> {
  const unshare = findOnPath('unshare');
  if (!unshare) return [];
  for (const kind of NETWORK_NAMESPACES) {
    try {
      await run(unshare, [...kind, '--', 'true'], { timeout: 5_000 });
      return [unshare, ...kind, '--'];
    } catch (error) {
      // A temporary fault is no answer: treating it as one would run tools with the network.
      const lack = exhausted(error);
      if (lack) throw lack;
      // The kernel forbids this kind, but may allow the next one.
    }
  }
  return [];
}
