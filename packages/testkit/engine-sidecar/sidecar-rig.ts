import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderRequest } from '@semblance/engine-api/engine';
import { createSidecarEngine } from '@semblance/engine-sidecar';
import { afterEach, beforeEach } from 'vitest';
import { type ScriptedOptions, startScriptedSidecar } from './scripted-sidecar.ts';

/** Times for well-behaved sidecars. The sidecar runs in this process, so a standstill must not look like a hang. */
const TIMES = { healthEveryMs: 50, deadAfterMs: 60_000, silenceMs: 60_000, endMs: 60_000 };
const IDLE = new AbortController().signal;

/** A folder for each test, in which sidecars and their clients are started; all of it ends with the test. */
export function useSidecarRig() {
  let dir: string;
  let ends: (() => Promise<void>)[];
  let outputs = 0;
  const socket = () => join(dir, 'shared', 'engine.sock');

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-sidecar-'));
    await mkdir(join(dir, 'shared'));
    await mkdir(join(dir, 'shared', 'elsewhere'));
    await writeFile(join(dir, 'shared', 'elsewhere', 'out.png'), 'of somebody else');
    await writeFile(join(dir, 'image'), 'an image');
    await writeFile(join(dir, 'face'), 'a face');
    ends = [];
  });
  afterEach(async () => {
    for (const end of ends.toReversed()) await end();
    await rm(dir, { recursive: true, force: true });
  });

  return {
    dir: () => dir,
    socket,
    /** Calls a function at the end of the test, before those of earlier calls. */
    atEnd: (end: () => Promise<void>) => void ends.push(end),
    async sidecar(options: ScriptedOptions = {}) {
      const started = await startScriptedSidecar(socket(), options);
      ends.push(() => started.kill());
      return started;
    },
    async warmEngine(signal: AbortSignal = IDLE, times: Partial<typeof TIMES> = {}): Promise<Engine> {
      const engine = createSidecarEngine(
        { threads: 1, settings: { socket: socket() } },
        { ...TIMES, ...times },
      );
      ends.push(() => engine.close());
      await engine.warmUp(signal);
      return engine;
    },
    /** Returns a work for the sidecar, which does what `mode` says. */
    async work(mode: string, signal: AbortSignal = IDLE) {
      const outputDir = join(dir, `out-${++outputs}`);
      await mkdir(outputDir);
      return {
        capability: 'face-swap-image',
        inputs: { image: join(dir, 'image'), face: join(dir, 'face') },
        parameters: { mode },
        outputDir,
        signal,
        onProgress: () => {},
      } satisfies RenderRequest;
    },
    leftovers: () => readdir(join(dir, 'shared', 'work')).catch(() => []),
  };
}
