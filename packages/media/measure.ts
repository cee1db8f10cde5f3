import { createInterface } from 'node:readline';
import { RenderError } from '@semblance/engine-api/engine';
import { interrupted } from './failure.ts';
import { inputArgs } from './formats.ts';
import type { Kit } from './kit.ts';
import type { WrittenVideo } from './types.ts';

/** Called with the number of decoded seconds. */
export type OnDecoded = (seconds: number) => void;

/**
 * Decodes a finished video and returns its length from the first frame to the end of the last one. Longer sound
 * does not count, because the charge is for the rendered picture. Any engine may have made the file, so nothing is
 * assumed about its container or time base.
 */
export function measure(
  kit: Kit,
  path: string,
  signal: AbortSignal,
  onDecoded?: OnDecoded,
): Promise<WrittenVideo> {
  const decoding = ['-threads', String(kit.threads), '-skip_loop_filter', 'all'];
  const times = 'best_effort_timestamp,best_effort_timestamp_time,pkt_duration,duration';
  return span(kit, path, signal, `frame=${times}`, decoding, onDecoded);
}

/**
 * Measures a file that this layer wrote from its packets. They are in display order, one per frame, so decoding
 * would give the same length.
 */
export function measureWritten(kit: Kit, path: string, signal: AbortSignal): Promise<WrittenVideo> {
  return span(kit, path, signal, 'packet=pts,duration', []);
}

async function span(
  kit: Kit,
  path: string,
  signal: AbortSignal,
  entries: string,
  options: readonly string[],
  onDecoded?: OnDecoded,
): Promise<WrittenVideo> {
  const args = [
    ...[
      '-v',
      'error',
      ...options,
      '-select_streams',
      'V:0',
      '-show_entries',
      `stream=time_base,width,height:${entries}`,
    ],
    ...['-of', 'compact=p=0:s=,', ...inputArgs(path)],
  ];
  await using tool = await kit.start('ffprobe', args, { signal, read: [path], limits: { cpuSec: 3_600 } });
  let frames = 0;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let end = Number.NEGATIVE_INFINITY;
  let secondsPerTick = Number.NaN;
  const size = { width: 0, height: 0 };
  let firstSeconds: number | undefined;
  for await (const line of createInterface({ input: tool.stdout })) {
    const fields = new Map(line.split(',').map((part) => part.split('=') as [string, string]));
    const base = fields.get('time_base');
    if (base !== undefined) {
      const [num, den] = base.split('/').map(Number);
      secondsPerTick = Number(num) / Number(den);
      size.width = Number(fields.get('width'));
      size.height = Number(fields.get('height'));
      continue;
    }
    const time = Number(fields.get('best_effort_timestamp') ?? fields.get('pts'));
    if (!Number.isFinite(time)) continue;
    const duration = Number(fields.get('duration') ?? fields.get('pkt_duration'));
    frames++;
    first = Math.min(first, time);
    last = Math.max(last, time);
    end = Math.max(end, time + (duration > 0 ? duration : 0));
    // The size of a tick is known last, so this field is in seconds.
    const seconds = Number(fields.get('best_effort_timestamp_time'));
    if (!onDecoded || !Number.isFinite(seconds)) continue;
    firstSeconds ??= seconds;
    onDecoded(seconds - firstSeconds);
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  const moment = interrupted(exit);
  if (moment) throw moment;
  // Some containers do not state how long the last frame is shown; it then gets the mean length.
  if (end <= last && frames > 1) end = last + (last - first) / (frames - 1);
  const durationMs = Math.round((end - first) * secondsPerTick * 1000);
  if (exit.code !== 0 || !(durationMs > 0) || !(size.width > 0 && size.height > 0)) {
    throw new RenderError('processing_failed', 'The file written cannot be decoded.', { cause: exit.stderr });
  }
  return { frames, durationMs, size };
}
