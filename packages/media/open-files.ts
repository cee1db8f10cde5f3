import { stat } from 'node:fs/promises';
import { type RawStream, readHeaders, unsupported } from './headers.ts';
import type { Launcher } from './launcher.ts';
import { type PacketTimes, scanPackets } from './packets.ts';

/** Everything read from a file so far. */
export interface OpenFile {
  /** ffmpeg's name of the container format. */
  readonly container: string;
  readonly startTime: string | undefined;
  readonly streams: readonly RawStream[];
  times(stream: RawStream, signal: AbortSignal): Promise<PacketTimes>;
}

const REMEMBERED = 16;

/**
 * Reads files' headers and times, each once while the file is unchanged. A render asks for the picture of its
 * input, for its sound, and for both again when it writes. @throws RenderError
 */
export function createFileReader(
  launcher: Launcher,
): (path: string, signal: AbortSignal) => Promise<OpenFile> {
  const known = new Map<string, OpenFile>();
  return async (path, signal) => {
    const { dev, ino, size, mtimeMs } = await stat(path);
    if (size === 0) throw unsupported('The file is empty.');
    const key = `${dev} ${ino} ${size} ${mtimeMs} ${path}`;
    const before = known.get(key);
    if (before) return before;
    const raw = await readHeaders(launcher, path, signal);
    const read = new Map<number, PacketTimes>();
    const file: OpenFile = {
      container: raw.format?.format_name ?? 'unknown',
      startTime: raw.format?.start_time,
      streams: raw.streams ?? [],
      async times(stream, scanSignal) {
        const times = read.get(stream.index) ?? (await scanPackets(launcher, path, stream, scanSignal));
        read.set(stream.index, times);
        return times;
      },
    };
    known.set(key, file);
    const [oldest] = known.keys();
    if (known.size > REMEMBERED && oldest !== undefined) known.delete(oldest);
    return file;
  };
}
