import { createInterface } from 'node:readline';
import { RenderError } from '../engines/engine.ts';
import { inputArgs } from './formats.ts';
import type { Kit } from './kit.ts';
import { TICKS_PER_SECOND } from './mp4-times.ts';
import type { WrittenVideo } from './types.ts';

/**
 * Decodes a file of ours and says how long it is: from its first frame to the end of its last one. Sound that goes on
 * longer is not counted: what is charged is what was rendered.
 */
export async function measure(kit: Kit, path: string, signal: AbortSignal): Promise<WrittenVideo> {
  const args = [
    ...['-v', 'error', '-threads', String(kit.threads), '-skip_loop_filter', 'all', '-select_streams', 'v:0'],
    ...['-show_entries', 'frame=pts,pkt_duration,duration', '-of', 'compact=p=0:s=,', ...inputArgs(path)],
  ];
  await using tool = await kit.start('ffprobe', args, { signal, limits: { cpuSec: 3_600 } });
  let frames = 0;
  let first = Number.POSITIVE_INFINITY;
  let end = 0;
  for await (const line of createInterface({ input: tool.stdout })) {
    const fields = new Map(line.split(',').map((part) => part.split('=') as [string, string]));
    const pts = Number(fields.get('pts'));
    const duration = Number(fields.get('duration') ?? fields.get('pkt_duration'));
    if (!Number.isFinite(pts) || !Number.isFinite(duration)) continue;
    frames++;
    first = Math.min(first, pts);
    end = Math.max(end, pts + duration);
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  if (exit.code !== 0 || frames === 0) {
    throw new RenderError('processing_failed', 'The file written cannot be decoded.', { cause: exit.stderr });
  }
  return { frames, durationMs: Math.round(((end - first) * 1000) / TICKS_PER_SECOND) };
}
