import { randomBytes } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import { knownTags } from './color.ts';
import { interrupted } from './failure.ts';
import type { FrameMemory } from './frame-memory.ts';
import type { Kit } from './kit.ts';
import type { HeldTool } from './launcher.ts';
import { TICKS_PER_SECOND } from './mp4-times.ts';
import { finishFile } from './mux.ts';
import { nutFrameHeader, nutHeader } from './nut.ts';
import { probeSound, type Sound } from './probe.ts';
import type { ToolExit } from './sandbox.ts';
import type { VideoWriter, WriterOptions } from './types.ts';

/** Number of frames held besides the one that the encoder is taking. */
const QUEUE = 2;
/** x264's rate factor: visually lossless, at about the size of phone videos. */
const CRF = 19;

/**
 * Opens an encoder for H.264 in MP4. The picture goes into a separate file first. `finish` adds the sound and the
 * length of the last frame, which is known only at the end. It then measures the result and gives it its name.
 */
export async function openWriter(kit: Kit, options: WriterOptions): Promise<VideoWriter> {
  const { path, signal, width, height } = options;
  if (width % 2 || height % 2) throw new RangeError('frames have even sides');
  const sound = options.audio && (await probeSound(kit, options.audio.path, signal));
  const stem = join(dirname(resolve(path)), `.${basename(path)}.${randomBytes(6).toString('hex')}`);
  const parts = { video: `${stem}.video`, whole: `${stem}.whole` };
  for (const part of Object.values(parts)) await kit.guard.removeOnDeath(part);
  const tool = await kit.start('ffmpeg', encoderArgs(kit, options, parts.video), {
    signal,
    feed: true,
    write: [parts.video],
    limits: { cpuSec: 24 * 3_600, fileMib: 8_192 },
  });
  return new Mp4Writer(kit, options, sound, parts, tool);
}

function encoderArgs(kit: Kit, options: WriterOptions, to: string): string[] {
  const { range, space, primaries, transfer } = knownTags(options.color);
  const rate = Math.min(Math.max(options.frameRate, 1), 240);
  return [
    ...['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', '-protocol_whitelist', 'pipe', '-copyts'],
    // The stream is described completely, so ffmpeg need not hold frames back to analyse it.
    ...['-probesize', '32', '-analyzeduration', '0', '-f', 'nut', '-i', 'pipe:0'],
    ...[
      '-vf',
      `setparams=range=${range}:colorspace=${space}:color_primaries=${primaries}:color_trc=${transfer}`,
    ],
    ...['-fps_mode', 'passthrough', '-enc_time_base', `1:${TICKS_PER_SECOND}`],
    // Without B-frames, frames are stored in the order, with the times and lengths, in which they are shown.
    ...['-c:v', 'libx264', '-preset', 'veryfast', '-crf', String(CRF), '-bf', '0', '-pix_fmt', 'yuv420p'],
    // Without `fps` the encoder would take the time base for the rate, and choose the level by it.
    ...['-x264-params', `fps=${Math.round(rate * 1000)}/1000`, '-threads', String(kit.threads)],
    // MP4 needs the length of the last frame; NUT does not.
    ...['-map_metadata', '-1', '-f', 'nut', '-write_index', '0', `file:${to}`],
  ];
}

class Mp4Writer implements VideoWriter {
  private readonly kit: Kit;
  private readonly options: WriterOptions;
  private readonly sound: Sound | undefined;
  private readonly parts: { readonly video: string; readonly whole: string };
  private readonly tool: HeldTool;
  private readonly frameBytes: number;
  private readonly inFlight: Promise<void>[] = [];
  private readonly onAbort = () => void this.abort();
  private failed: unknown;
  private frames = 0;
  private lastUs = Number.NEGATIVE_INFINITY;
  private closing: Promise<void> | undefined;

  constructor(
    kit: Kit,
    options: WriterOptions,
    sound: Sound | undefined,
    parts: { readonly video: string; readonly whole: string },
    tool: HeldTool,
  ) {
    this.kit = kit;
    this.options = options;
    this.sound = sound;
    this.parts = parts;
    this.tool = tool;
    this.frameBytes = (options.width * options.height * 3) / 2;
    options.signal.addEventListener('abort', this.onAbort, { once: true });
    void this.send(nutHeader(options.width, options.height));
  }

  async write({ ptsUs, data }: { readonly ptsUs: number; readonly data: Uint8Array }): Promise<void> {
    this.check();
    if (data.length !== this.frameBytes)
      throw new RangeError(`a frame of ${data.length} bytes, not ${this.frameBytes}`);
    if (!(ptsUs >= 0) || ptsUs <= this.lastUs)
      throw new RangeError(`a frame at ${ptsUs} µs after one at ${this.lastUs} µs`);
    this.lastUs = Math.round(ptsUs);
    this.frames++;
    const header = nutFrameHeader(this.lastUs, data.length);
    const { memory } = this.options;
    // Without `memory` this is a copy, so that the caller may reuse its buffer at once.
    const sent = memory ? this.sendOwned(header, data, memory) : this.send(Buffer.concat([header, data]));
    this.inFlight.push(sent);
    if (this.inFlight.length > QUEUE) await this.inFlight.shift();
    this.check();
  }

  async finish(endUs: number) {
    this.check();
    if (this.frames === 0) throw new RangeError('a video without a frame');
    const { signal, path } = this.options;
    try {
      await Promise.all(this.inFlight);
      this.check();
      this.tool.stdin?.end();
      const exit = await this.tool.exited;
      signal.throwIfAborted();
      if (exit.code !== 0) throw notEncoded(exit);
      const lastFrameUs = Math.max(1_000, Math.round(endUs) - this.lastUs);
      const measured = await finishFile(this.kit, {
        video: this.parts.video,
        to: this.parts.whole,
        frames: this.frames,
        lastFrameUs,
        signal,
        sound: this.sound && { ...this.sound, path: this.options.audio?.path ?? '' },
      });
      await rename(this.parts.whole, path);
      return measured;
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      await this.abort();
      // An abort may have come while the file was being assembled.
      await this.removeParts();
    }
  }

  abort(): Promise<void> {
    this.closing ??= this.close();
    return this.closing;
  }

  private async close(): Promise<void> {
    this.options.signal.removeEventListener('abort', this.onAbort);
    this.failed ??= this.options.signal.aborted
      ? this.options.signal.reason
      : new Error('the writer is closed');
    await this.tool[Symbol.asyncDispose]();
    await this.removeParts();
  }

  private async removeParts(): Promise<void> {
    for (const part of Object.values(this.parts)) {
      await rm(part, { force: true });
      await this.kit.guard.keep(part);
    }
  }

  private check(): void {
    this.options.signal.throwIfAborted();
    if (this.failed !== undefined) throw this.failed;
  }

  private async sendOwned(header: Uint8Array, data: Uint8Array, memory: FrameMemory): Promise<void> {
    await Promise.all([this.send(header), this.send(data)]);
    memory.give(data);
  }

  /** Never rejects; the next call throws the error. */
  private async send(bytes: Uint8Array): Promise<void> {
    const timer = setTimeout(() => this.tool.kill(), this.kit.stallSec * 1000);
    const error = await new Promise<Error | null | undefined>((resolve) => {
      this.tool.stdin?.write(bytes, resolve);
    });
    clearTimeout(timer);
    if (!error || this.failed !== undefined) return;
    const exit = await this.tool.exited;
    this.failed ??= notEncoded(exit);
  }
}

function notEncoded(exit: ToolExit): Error {
  const fault = interrupted(exit);
  if (fault) return fault;
  if (exit.ended === 'killed') return new EngineInterruptedError('the encoder took no frame any more');
  const cause = exit.stderr || exit.signal;
  return new RenderError('processing_failed', 'The video could not be encoded.', { cause });
}
