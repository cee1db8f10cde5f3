import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface FakeCards {
  /** Path of the program. */
  readonly program: string;
  /** Changes what the program answers from now on. */
  set(state: Partial<CardsState>): void;
}

interface CardsState {
  readonly totalMib: number;
  /** Memory of each engine process, in MiB, as the driver writes it, such as `[N/A]`. */
  readonly engineMib: number | string;
  /** Memory of processes that belong to others. */
  readonly othersMib: number;
  /** Added to PIDs of engines: the driver tells those of the host, which a container does not know. */
  readonly pidOffset: number;
  /** Text of an error with which the program ends instead. */
  readonly failure: string;
}

export const CARD = 'GPU-4c6c0ba6-0000-4000-8000-0123456789ab';

/**
 * Writes a program that answers as nvidia-smi does to --query-gpu and --query-compute-apps with
 * `--format=csv,noheader,nounits`, in the form of NVIDIA's documentation. Its compute processes are the engine
 * processes of the process that calls it, and one of somebody else.
 */
export function fakeNvidiaSmi(dir: string): FakeCards {
  const [program, stateFile] = [join(dir, 'nvidia-smi'), join(dir, 'cards.json')];
  let state: CardsState = { totalMib: 24_576, engineMib: 1_000, othersMib: 500, pidOffset: 0, failure: '' };
  const set = (change: Partial<CardsState>) => {
    state = { ...state, ...change };
    // In one step, because the program may be reading.
    writeFileSync(`${stateFile}.new`, JSON.stringify(state));
    renameSync(`${stateFile}.new`, stateFile);
  };
  set({});
  writeFileSync(
    program,
    `#!${process.execPath}\n${SCRIPT.replace('STATE_FILE', JSON.stringify(stateFile))}`,
    {
      mode: 0o755,
    },
  );
  return { program, set };
}

const SCRIPT = `
const { readFileSync, readdirSync } = require('node:fs');
const { totalMib, engineMib, othersMib, pidOffset, failure } = JSON.parse(readFileSync(STATE_FILE, 'utf8'));
if (failure) { console.error(failure); process.exit(9); }
const read = (path) => { try { return readFileSync(path, 'utf8'); } catch { return ''; } };
const engines = readdirSync('/proc').filter((pid) => /^\\d+$/.test(pid)).filter((pid) =>
  new RegExp('^PPid:\\\\s*' + process.ppid + '$', 'm').test(read('/proc/' + pid + '/status')) &&
  read('/proc/' + pid + '/cmdline').includes('host-main.ts'));
const uuid = '${CARD}';
if (process.argv[2].startsWith('--query-gpu=')) {
  const own = typeof engineMib === 'number' ? engineMib * engines.length : 0;
  console.log([uuid, totalMib, own + othersMib].join(', '));
} else {
  console.log([uuid, 4194000, othersMib].join(', '));
  for (const pid of engines) console.log([uuid, Number(pid) + pidOffset, engineMib].join(', '));
}
`;
