/**
 * Runs the conformance suite against a sidecar:
 *
 *   npm run --silent conformance -- --socket /tmp/x/engine.sock --capability face-swap-image -- python3 my_engine.py
 *
 * The command after `--` is started with SEMBLANCE_SIDECAR_SOCKET set, killed for the crash check, and ended.
 * Without it the sidecar must already run. Prints one line per check. Exits with 0 when all checks passed, 1 when
 * one failed or the engine could not be examined, 2 for an invalid command line.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.ts';
import { conformanceChecks } from './checks.ts';
import { assertFree, reach } from './reach.ts';
import { type Subject, sidecar } from './subject.ts';

/** Time for the engine to start, in ms; models may load slowly. */
const START_MS = 600_000;

function argumentsOrExit(): Arguments {
  try {
    const read = readArguments(process.argv.slice(2));
    if (read !== 'help') return read;
    console.log(USAGE);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

/** @returns number of failed checks */
async function look(subject: Subject, { given }: Arguments, dir: string): Promise<number> {
  console.log(`${subject.info.name} ${subject.info.version}, ${subject.places} renders at once`);
  let failed = 0;
  for (const { name, skip, run } of conformanceChecks(subject, given, dir)) {
    if (skip) {
      console.log(`- ${name}: left out, ${skip}`);
      continue;
    }
    try {
      interrupted.signal.throwIfAborted();
      await Promise.race([run(), interruption]);
      console.log(`✓ ${name}`);
    } catch (error) {
      interrupted.signal.throwIfAborted();
      failed++;
      console.log(`✗ ${name}: ${describeError(error)}`);
    }
  }
  return failed;
}

const given = argumentsOrExit();
const { socket, command } = given;
const interrupted = new AbortController();
const interruption = new Promise<never>((_, reject) => {
  interrupted.signal.addEventListener('abort', () => reject(interrupted.signal.reason));
});
interruption.catch(() => {});
for (const name of ['SIGINT', 'SIGTERM'] as const)
  process.once(name, () => interrupted.abort(new Error(`ended by ${name}`)));

const dir = await mkdtemp(join(tmpdir(), 'semblance-conformance-'));
try {
  const signal = AbortSignal.any([interrupted.signal, AbortSignal.timeout(START_MS)]);
  if (command) {
    await assertFree(socket);
    await mkdir(dirname(socket), { recursive: true });
  } else await reach(socket, signal);
  const subject = await sidecar(socket, command)({ dir, signal });
  let failed: number;
  try {
    failed = await look(subject, given, dir);
  } finally {
    await subject.close();
  }
  console.log(failed === 0 ? 'It keeps to the contract.' : `${failed} checks failed.`);
  process.exitCode = failed === 0 ? 0 : 1;
} catch (error) {
  console.error(`✗ ${describeError(error)}`);
  process.exitCode = 1;
} finally {
  await rm(dir, { recursive: true, force: true });
}
