import { createInterface } from 'node:readline';
import { RenderError } from '@semblance/engine-api/engine';
import { stopped } from './failure.ts';
import { lookArgs } from './formats.ts';
import { type RawStream, unsupported } from './headers.ts';
import type { Launcher } from './launcher.ts';

/** Display times of the packets of one stream. */
export interface PacketTimes {
  readonly packets: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly durationUs: number;
  readonly variable: boolean;
  /** Whether some packets have no display time but only a decoding time, as in AVI. */
  readonly untimed: boolean;
}

/** Smallest step back, in seconds, after which the times of a file count as begun again. */
const BEGINS_AGAIN_SEC = 0.5;
/** Number of packets with such a step that are needed, because single times may be damaged. */
const BEGINS_AGAIN_PACKETS = 3;

/**
 * Reads the times of one stream's packets without decoding them, because headers may be wrong.
 * @throws RenderError also when times begin again, because frames would be shown on top of each other and not be
 * counted
 */
export async function scanPackets(
  launcher: Launcher,
  path: string,
  stream: RawStream,
  signal: AbortSignal,
): Promise<PacketTimes> {
  const [num = 1, den = 1] = (stream.time_base ?? '1/1').split('/').map(Number);
  const args = [
    ...['-v', 'error', '-select_streams', String(stream.index)],
    ...['-show_entries', 'packet=pts,dts,duration,size,flags', '-of', 'compact=p=0:s=,', ...lookArgs(path)],
  ];
  await using tool = await launcher.start('ffprobe', args, { signal, read: [path], wallSec: 600 });
  const isVideo = stream.codec_type === 'video';
  const most = isVideo ? launcher.limits.maxFrames : Number.POSITIVE_INFINITY;
  const toUs = (1e6 * num) / den;
  const shown = new Span();
  const decoded = new Span();
  let packets = 0;
  let early = 0;
  for await (const line of createInterface({ input: tool.stdout })) {
    const fields = new Map(line.split(',').map((part) => part.split('=') as [string, string]));
    // Empty packets repeat the frame before; those marked D are cut by an edit list.
    if (!fields.has('size') || fields.get('size') === '0' || fields.get('flags')?.includes('D')) continue;
    packets++;
    const duration = Number(fields.get('duration')) || 0;
    // Packets are decoded in file order, which may differ from the order of display.
    if (Number(fields.get('dts')) * toUs < decoded.last * toUs - BEGINS_AGAIN_SEC * 1e6) early++;
    if (early >= BEGINS_AGAIN_PACKETS) throw beginsAgain(isVideo ? 'video' : 'sound');
    shown.add(Number(fields.get('pts')), duration, isVideo);
    decoded.add(Number(fields.get('dts')), duration, isVideo);
    if (packets > most) throw new RenderError('input_too_large', `The video has more than ${most} frames.`);
    const soFar = Math.max(shown.length, decoded.length) * toUs;
    if (soFar > launcher.limits.maxDurationSec * 1e6) throw tooLong(launcher, soFar / 1e6);
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  const failure = stopped(exit, 'The file');
  if (failure) throw failure;
  if (packets === 0)
    throw unsupported('Nothing in the file can be decoded: it is damaged or cut off at its beginning.');
  const untimed = shown.count < packets;
  const span = untimed ? decoded : shown;
  const sorted = Float64Array.from(span.times).sort();
  // A bare stream may have no times; its frames are counted while decoding.
  let { first, last, end } = span.count > 0 ? span : { first: 0, last: 0, end: 0 };
  const mean =
    span.count > 1 && last > first ? (last - first) / (span.count - 1) : statedDistance(stream, toUs);
  if (span.count === 0) last = (packets - 1) * mean;
  // Some containers do not state how long the last frame is shown; it then gets the mean length.
  if (isVideo && !(end > last)) end = last + mean;
  end = Math.max(end, last);
  const late = untimed && shown.count > 0 ? shown.first - first : 0;
  return {
    packets,
    startUs: Math.round((first + late) * toUs),
    endUs: Math.round((end + late) * toUs),
    durationUs: Math.round((end - first) * toUs),
    variable: isVariable(sorted, toUs),
    untimed,
  };
}

/** Range of times, in ticks. */
class Span {
  readonly times: number[] = [];
  count = 0;
  first = Number.POSITIVE_INFINITY;
  last = Number.NEGATIVE_INFINITY;
  end = Number.NEGATIVE_INFINITY;

  add(time: number, duration: number, keep: boolean): void {
    if (!Number.isFinite(time)) return;
    this.count++;
    if (keep) this.times.push(time);
    this.first = Math.min(this.first, time);
    this.last = Math.max(this.last, time);
    this.end = Math.max(this.end, time + duration);
  }

  get length(): number {
    return this.count > 0 ? this.end - this.first : 0;
  }
}

function statedDistance(stream: RawStream, toUs: number): number {
  const [num = 0, den = 0] = (stream.avg_frame_rate ?? '').split('/').map(Number);
  return (num > 0 && den > 0 ? (1e6 * den) / num : 40_000) / toUs;
}

/**
 * Returns whether distances differ by two ticks or more, or by more than two milliseconds if ticks are finer than
 * the precision of files.
 */
function isVariable(sorted: Float64Array, toUs: number): boolean {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 1; i < sorted.length; i++) {
    const distance = (sorted[i] as number) - (sorted[i - 1] as number);
    least = Math.min(least, distance);
    most = Math.max(most, distance);
  }
  return sorted.length > 2 && (most - least) * toUs > Math.max(1.5 * toUs, 2_000);
}

const beginsAgain = (what: string) =>
  unsupported(
    `The time stamps of the ${what} begin again in the middle, as in parts that were put end to end. ` +
      'Convert it to one file, such as an MP4, in which they go on, and upload that.',
  );

export const tooLong = (launcher: Launcher, seconds: number) =>
  new RenderError(
    'input_too_large',
    `The input is ${Math.round(seconds)} s long or longer; at most ${launcher.limits.maxDurationSec} s are taken.`,
  );
