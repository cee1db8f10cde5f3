import type { Guard } from '@semblance/common/process/guard';
import { type ChildLimits, startTool, type Tool } from './sandbox.ts';
import type { MediaTools } from './tools.ts';
import type { MediaLimits } from './types.ts';

/** Starts ffmpeg and ffprobe with the limits of this process. */
export interface Launcher {
  readonly tools: MediaTools;
  readonly guard: Guard;
  readonly limits: MediaLimits;
  readonly threads: number;
  readonly memoryMib: number;
  readonly stallSec: number;
  /** Nice value of the tools. Default: that of this process. */
  readonly nice?: number | undefined;
  /** Starts a tool. It ends when the block that holds it (`await using`) is left. */
  start(program: 'ffmpeg' | 'ffprobe', args: readonly string[], options: StartOptions): Promise<HeldTool>;
  /** Yields chunks as they arrive; kills a tool that sends none for `stallSec` while one is wanted. */
  patient(tool: Tool, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>;
}

export interface StartOptions {
  readonly signal: AbortSignal;
  /**
   * Seconds after which the tool is killed, to catch files that take too long; several times its CPU limit. Absent
   * for tools whose reader or writer sets the pace.
   */
  readonly wallSec?: number;
  readonly limits?: Partial<ChildLimits>;
  readonly feed?: boolean;
  /** Files that it reads, and that it writes. */
  readonly read?: readonly string[];
  readonly write?: readonly string[];
}

export type HeldTool = Tool & AsyncDisposable;

export function createLauncher(base: Omit<Launcher, 'start' | 'patient'>): Launcher {
  return {
    ...base,
    async start(program, args, { signal, wallSec, limits, feed = false, read = [], write = [] }) {
      const tool = await startTool({
        tools: base.tools,
        program,
        args,
        guard: base.guard,
        nice: base.nice,
        signal,
        feed,
        read,
        write,
        limits: { cpuSec: 120, memoryMib: base.memoryMib, fileMib: 1, ...limits },
      });
      const timer = wallSec === undefined ? undefined : setTimeout(() => tool.kill(), wallSec * 1000);
      void tool.exited.then(() => clearTimeout(timer));
      return {
        ...tool,
        async [Symbol.asyncDispose]() {
          tool.kill();
          await tool.exited;
          tool.stdout.destroy();
        },
      };
    },
    async *patient(tool, chunks) {
      const iterator = chunks[Symbol.asyncIterator]();
      let asking = false;
      // One timer serves all chunks, because a frame may have twenty of them.
      const timer = setTimeout(() => {
        if (asking) tool.kill();
      }, base.stallSec * 1000);
      try {
        for (;;) {
          asking = true;
          timer.refresh();
          const next = await iterator.next();
          asking = false;
          if (next.done) return;
          yield next.value;
        }
      } finally {
        clearTimeout(timer);
        await iterator.return?.();
      }
    },
  };
}
