import { RenderError } from '@semblance/engine-api/engine';
import { stopped } from './failure.ts';
import { lookArgs } from './formats.ts';
import type { Launcher } from './launcher.ts';

/** A stream as ffprobe describes it. */
export interface RawStream {
  index: number;
  codec_type?: string;
  codec_name?: string;
  width?: number;
  height?: number;
  pix_fmt?: string;
  sample_aspect_ratio?: string;
  avg_frame_rate?: string;
  r_frame_rate?: string;
  time_base?: string;
  start_time?: string;
  duration?: string;
  nb_frames?: string;
  field_order?: string;
  color_range?: string;
  color_space?: string;
  color_transfer?: string;
  color_primaries?: string;
  sample_rate?: string;
  channels?: number;
  disposition?: { attached_pic?: number; default?: number };
  side_data_list?: { side_data_type?: string; displaymatrix?: string }[];
}

export interface RawProbe {
  streams?: RawStream[];
  format?: { format_name?: string; duration?: string; start_time?: string };
}

const ENTRIES = [
  'format=format_name,duration,start_time',
  'stream=index,codec_type,codec_name,width,height,pix_fmt,sample_aspect_ratio,avg_frame_rate,r_frame_rate,time_base,' +
    'start_time,duration,nb_frames,field_order,color_range,color_space,color_transfer,color_primaries,sample_rate,channels',
  'stream_disposition=attached_pic,default',
  'stream_side_data=side_data_type,displaymatrix',
].join(':');
const MAX_PROBE_TEXT = 1 << 20;

export const unsupported = (message: string, cause?: unknown) =>
  new RenderError('unsupported_format', message, cause === undefined ? undefined : { cause });

/** @throws RenderError */
export async function readHeaders(launcher: Launcher, path: string, signal: AbortSignal): Promise<RawProbe> {
  const args = ['-v', 'error', '-print_format', 'json', '-show_entries', ENTRIES, ...lookArgs(path)];
  await using tool = await launcher.start('ffprobe', args, {
    signal,
    read: [path],
    wallSec: 300,
    limits: { cpuSec: 60 },
  });
  let text = '';
  for await (const chunk of tool.stdout.setEncoding('utf8')) {
    text += chunk;
    if (text.length > MAX_PROBE_TEXT) throw unsupported('The file has too many streams.');
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  const failure = stopped(exit, 'The file');
  if (failure) throw failure;
  if (exit.code !== 0)
    throw unsupported('The file is damaged, or no video or sound of a kind that is accepted.', exit.stderr);
  try {
    return JSON.parse(text) as RawProbe;
  } catch (cause) {
    throw unsupported('The file is damaged.', cause);
  }
}

/** Returns the track that players choose: the default one, otherwise the first; never a cover picture. */
export function pickStream(streams: readonly RawStream[], kind: 'video' | 'audio'): RawStream | undefined {
  const usable = streams.filter(
    (stream) =>
      stream.codec_type === kind &&
      (stream.codec_name ?? 'unknown') !== 'unknown' &&
      stream.disposition?.attached_pic !== 1 &&
      (kind === 'audio'
        ? Number(stream.sample_rate) > 0
        : (stream.width ?? 0) > 0 && (stream.height ?? 0) > 0),
  );
  return usable.find((stream) => stream.disposition?.default === 1) ?? usable[0];
}
