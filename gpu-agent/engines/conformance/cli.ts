/**
 * For whoever writes a sidecar: runs the conformance suite against it.
 *
 *   npm run --silent conformance -- --socket /tmp/x/engine.sock --capability face-swap-image -- python3 my_engine.py
 *
 * What stands after `--` is started with SEMBLANCE_SIDECAR_SOCKET set, killed for the check of crashes, and ended.
 * Without it the sidecar has to run already. Prints a line for each check and ends with status 1 when one failed.
 *
 * --input ROLE=FILE      work that is done well; Photo Swap takes two portraits of this repository when none is given
 * --parameter NAME=VALUE
 * --bad CODE:ROLE=FILE   work like the above with this file instead, which must be refused with the code
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { CAPABILITIES, isCapability } from '#common/capabilities.ts';
import { describeError } from '#common/errors.ts';
import { RENDER_ERROR_CODES, type RenderErrorCode } from '../engine.ts';
import { conformanceChecks } from './checks.ts';
import type { BadSample, Inputs } from './samples.ts';
import { sidecar } from './subject.ts';

const MEDIA = join(import.meta.dirname, '../../../media');
const DEFAULTS: Readonly<Record<string, Inputs>> = {
  'face-swap-image': { image: join(MEDIA, 'astronaut.png'), face: join(MEDIA, 'grace_hopper.jpg') },
};

function usage(message: string): never {
  console.error(`${message}\n\nusage: cli.ts --socket PATH --capability NAME [--input ROLE=FILE]… [--parameter NAME=VALUE]…
               [--bad CODE:ROLE=FILE]… [-- COMMAND…]`);
  process.exit(2);
}

function pair(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) usage(`${text}: a name and a value with = between them are needed`);
  return [text.slice(0, at), text.slice(at + 1)];
}

function readArguments() {
  const at = process.argv.indexOf('--');
  const own = process.argv.slice(2, at < 0 ? undefined : at);
  const command = at < 0 ? undefined : process.argv.slice(at + 1);
  const several = { type: 'string', multiple: true, default: [] as string[] } as const;
  const { values } = parseArgs({
    args: own,
    options: {
      socket: { type: 'string' },
      capability: { type: 'string' },
      input: several,
      parameter: several,
      bad: several,
    },
  });
  const { socket, capability = '' } = values;
  if (!socket) usage('--socket is missing');
  if (!isCapability(capability)) usage(`--capability is one of ${Object.keys(CAPABILITIES).join(', ')}`);
  const files = values.input.map(pair).map(([role, file]) => [role, resolve(file)]);
  const inputs: Inputs = files.length > 0 ? Object.fromEntries(files) : (DEFAULTS[capability] ?? {});
  for (const role of Object.keys(CAPABILITIES[capability].inputs)) {
    if (!inputs[role]) usage(`${capability} needs --input ${role}=FILE`);
  }
  const bad = values.bad.map((text): BadSample => {
    const [code, rest] = text.split(/:(.*)/s);
    if (!RENDER_ERROR_CODES.includes(code as RenderErrorCode)) usage(`${code} is no error code`);
    const [role, file] = pair(rest ?? '');
    return { name: text, inputs: { ...inputs, [role]: resolve(file) }, code: code as RenderErrorCode };
  });
  const parameters = Object.fromEntries(values.parameter.map(pair));
  return { socket: resolve(socket), command, given: { capability, inputs, parameters, bad } };
}

const { socket, command, given } = readArguments();
const dir = await mkdtemp(join(tmpdir(), 'semblance-conformance-'));
let failed = 0;
try {
  await mkdir(dirname(socket), { recursive: true });
  const subject = await sidecar(socket, command)({ dir, signal: AbortSignal.timeout(600_000) });
  try {
    console.log(`${subject.info.name} ${subject.info.version}, ${subject.places} renders at once`);
    for (const { name, skip, run } of conformanceChecks(subject, given, dir)) {
      if (skip) {
        console.log(`- ${name}: left out, ${skip}`);
        continue;
      }
      try {
        await run();
        console.log(`✓ ${name}`);
      } catch (error) {
        failed++;
        console.log(`✗ ${name}: ${describeError(error)}`);
      }
    }
  } finally {
    await subject.close();
  }
} catch (error) {
  failed++;
  console.error(`✗ ${describeError(error)}`);
} finally {
  await rm(dir, { recursive: true, force: true });
}
console.log(failed === 0 ? 'It keeps to the contract.' : `${failed} checks failed.`);
process.exitCode = failed === 0 ? 0 : 1;
