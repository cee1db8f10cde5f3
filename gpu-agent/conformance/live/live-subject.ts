import { silentLogger } from '@semblance/common/logging';
import type { LiveCapability, LiveEngine } from '@semblance/engine-api/live-engine';
import { loadCharacters } from '@semblance/engine-builtin/live-swap/characters';
import { createPictureMedia } from '../../live/engines/sidecar/picture-media.ts';
import { createSidecarEngine } from '../../live/engines/sidecar/sidecar-engine.ts';
import { createSoundMedia } from '../../live/engines/sidecar/sound-flow.ts';
import { startProgram } from '../program.ts';

/** A warm engine of live sessions under test, however it is reached. */
export interface LiveSubject {
  readonly engine: LiveEngine;
  /** Kills the program that carries the sessions. Undefined when there is none to kill. */
  readonly crash?: () => void;
  /** Starts a killed program again. */
  readonly restart?: () => void;
  close(): Promise<void>;
}

export interface StartLiveOptions {
  /** Existing private directory for the subject. */
  readonly dir: string;
  readonly signal: AbortSignal;
}

export type StartLiveSubject = (options: StartLiveOptions) => Promise<LiveSubject>;

/** Sound of the clients of the suite. */
export const SUITE_SOUND = { sampleRate: 48_000, chunkFrames: 960 } as const;

/** Takes an engine of this process, and warms it up. */
export function ofLiveEngine(create: () => LiveEngine | Promise<LiveEngine>): StartLiveSubject {
  return async ({ signal }) => {
    const engine = await create();
    await engine.warmUp(signal);
    return { engine, close: () => engine.close() };
  };
}

/**
 * Runs a sidecar of live sessions behind a socket, as an agent does.
 * @param command starts it with SEMBLANCE_SIDECAR_SOCKET set; without one it must already run, and is not killed
 */
export function liveSidecar(
  capability: LiveCapability,
  socket: string,
  command?: readonly string[],
): StartLiveSubject {
  return async ({ signal }) => {
    const start = () => (command ? startProgram(command, socket) : undefined);
    let program = start();
    let fault = (_reason: string) => {};
    const faulty = new Promise<never>((_, reject) => {
      fault = (reason) => reject(new Error(reason));
    });
    faulty.catch(() => {});
    const engine = createSidecarEngine({
      capability,
      socket,
      mostSlots: undefined,
      media:
        capability === 'voice' ? createSoundMedia(SUITE_SOUND) : createPictureMedia(await loadCharacters()),
      // An agent asks again; for a test the first fault counts.
      logger: Object.assign(silentLogger(), { error: (_facts: unknown, line: string) => fault(line) }),
      onChange() {},
      onCrash() {},
    });
    const close = async () => {
      await engine.close();
      await program?.end();
    };
    try {
      await Promise.race([engine.warmUp(signal), faulty, ...(program ? [program.died] : [])]);
    } catch (error) {
      await close();
      throw error;
    }
    if (!command) return { engine, close };
    return {
      engine,
      crash: () => program?.kill(),
      restart() {
        program = start();
      },
      close,
    };
  };
}
