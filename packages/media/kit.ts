import { createLauncher, type Launcher } from './launcher.ts';
import { createFileReader, type OpenFile } from './open-files.ts';

/** The tools that every part of the media layer uses. */
export interface Kit extends Launcher {
  /** Reads a file's headers. @throws RenderError */
  open(path: string, signal: AbortSignal): Promise<OpenFile>;
}

export function createKit(base: Omit<Launcher, 'start' | 'patient'>): Kit {
  const launcher = createLauncher(base);
  return { ...launcher, open: createFileReader(launcher) };
}
