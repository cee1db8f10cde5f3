import { execFile } from 'node:child_process';
import { isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { exhausted } from '@semblance/engine-api/exhausted';
import { askTool, findIsolation, type Isolation, PROBE_MS } from '@semblance/media/isolation';
import type { MissingSpeechTools, SpeechTools } from './speech-tools.ts';
import { FLITE_VOICES, PROGRAM_NAMES } from './speech-tools.ts';

const run = promisify(execFile);

/** The script that speaks with espeak-ng's library. */
export const ESPEAK_SCRIPT = join(import.meta.dirname, 'espeak.py');

/**
 * Finds flite, and espeak-ng with a Python to use it, on PATH.
 * @throws EngineInterruptedError when the machine lacks the files or processes to look, so the result is unknown
 * @throws IsolationError as `findIsolation`
 */
export async function findSpeechTools(): Promise<SpeechTools | MissingSpeechTools> {
  const isolation = await findIsolation();
  const [flite, espeak] = await Promise.all([findFlite(isolation), findEspeak(isolation)]);
  if (typeof flite === 'string' && typeof espeak === 'string') {
    return {
      available: false,
      reason: `${flite}, and ${espeak} (Debian and Ubuntu: apt-get install flite espeak-ng python3)`,
    };
  }
  return {
    available: true,
    flite: typeof flite === 'string' ? undefined : flite,
    espeak: typeof espeak === 'string' ? undefined : espeak,
    isolation,
  };
}

async function findFlite(isolation: Isolation): Promise<SpeechTools['flite'] | string> {
  const file = findOnPath('flite');
  if (!file) return 'flite is not on PATH';
  try {
    const stdout = await askTool(isolation, file, ['-lv']);
    const there = new Set(stdout.replace(/^.*:/, '').trim().split(/\s+/));
    const voices = FLITE_VOICES.filter((name) => there.has(PROGRAM_NAMES[name] ?? name));
    return voices.length ? { file, voices } : `${file} has none of the voices ${FLITE_VOICES.join(', ')}`;
  } catch (error) {
    const lack = exhausted(error);
    if (lack) throw lack;
    return `${file} does not run: ${messageOf(error)}`;
  }
}

async function findEspeak(isolation: Isolation): Promise<NonNullable<SpeechTools['espeak']> | string> {
  const named = findOnPath('python3');
  if (!named) return 'espeak-ng cannot be spoken with: python3 is not on PATH';
  try {
    // A name on PATH may be a script that starts the interpreter, which nothing can behind walls.
    const said = await run(named, ['-I', '-S', '-c', 'import sys; print(sys.executable)'], {
      timeout: PROBE_MS,
    });
    const python = isAbsolute(said.stdout.trim()) ? said.stdout.trim() : named;
    const stdout = await askTool(isolation, python, [...ESPEAK_ARGS, '--voices'], [ESPEAK_SCRIPT]);
    const voices = new Set(stdout.split('\n').filter((name) => /^[A-Za-z0-9-]+$/.test(name)));
    return voices.size ? { python, voices } : 'espeak-ng has no voices';
  } catch (error) {
    const lack = exhausted(error);
    if (lack) throw lack;
    return `espeak-ng does not speak: ${messageOf(error)}`;
  }
}

/** Python ignores its environment and this machine's own packages. */
export const ESPEAK_ARGS = ['-I', '-S', '-B', ESPEAK_SCRIPT] as const;

function messageOf(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message?: string };
  return (stderr?.trim().split('\n').at(-1) || message || String(error)).slice(0, 300);
}
