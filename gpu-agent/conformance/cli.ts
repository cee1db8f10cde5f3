/**
 * Runs the conformance suite against a sidecar:
 *
 *   npm run --silent conformance -- --socket /tmp/x/engine.sock --capability face-swap-image -- python3 my_engine.py
 *   npm run --silent conformance -- --socket /tmp/x/engine.sock --capability voice -- python3 my_voice.py
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
import { type Check, conformanceChecks } from './checks.ts';
import { liveConformanceChecks } from './live/live-checks.ts';
import { liveSidecar } from './live/live-subject.ts';
import { assertFree, assertThere, reach } from './reach.ts';
import { sidecar } from './subject.ts';

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
async function look(checks: readonly Check[]): Promise<number> {
  let failed = 0;
  for (const { name, skip, run } of checks) {
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

/** Starts the engine and checks it. @returns number of failed checks */
async function examine(signal: AbortSignal): Promise<number> {
  if (live) {
    const subject = await liveSidecar(live.capability, socket, command)({ dir, signal });
    try {
      console.log(`${subject.engine.engine}, ${subject.engine.slots} sessions at once`);
      return await look(liveConformanceChecks(subject, live));
    } finally {
      await subject.close();
    }
  }
  const subject = await sidecar(socket, command)({ dir, signal });
  try {
    console.log(`${subject.info.name} ${subject.info.version}, ${subject.places} renders at once`);
    return await look(given ? conformanceChecks(subject, given, dir) : []);
  } finally {
    await subject.close();
  }
}

const { socket, command, given, live } = argumentsOrExit();
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
  } else if (live) await assertThere(socket);
  else await reach(socket, signal);
  const failed = await examine(signal);
  console.log(failed === 0 ? 'It keeps to the contract.' : `${failed} checks failed.`);
  process.exitCode = failed === 0 ? 0 : 1;
} catch (error) {
  console.error(`✗ ${describeError(error)}`);
  process.exitCode = 1;
} finally {
  await rm(dir, { recursive: true, force: true });
}
