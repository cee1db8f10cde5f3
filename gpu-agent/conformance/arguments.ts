import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '@semblance/common/errors';
import {
  CAPABILITIES,
  CAPABILITY_NAMES,
  type Capability,
  isCapability,
} from '@semblance/engine-api/capabilities';
import { RENDER_ERROR_CODES, type RenderErrorCode } from '@semblance/engine-api/engine';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import type { ConformanceInputs } from './checks.ts';
import type { LiveConformanceInputs } from './live/live-checks.ts';
import type { BadSample, Inputs } from './samples.ts';

const MEDIA = join(import.meta.dirname, '../../media');
const DEFAULTS: Readonly<Partial<Record<Capability, Inputs>>> = {
  'face-swap-image': { image: join(MEDIA, 'astronaut.png'), face: join(MEDIA, 'grace_hopper.jpg') },
};
/** Definition of a voice as sessions get it; the suite changes the parameter `voice` alone. */
const VOICE = join(import.meta.dirname, '../../common/voices/shipped/calm-alto.json');
/** Longest path, in bytes, that fits into the address of a Unix socket on all systems. */
const LONGEST_SOCKET = 100;

export const USAGE = `usage: npm run --silent conformance -- --socket PATH --capability NAME [--input ROLE=FILE]…
         [--parameter NAME=VALUE]… [--bad CODE:ROLE=FILE]… [-- COMMAND…]

  --socket      Unix socket of the engine; COMMAND is told it in SEMBLANCE_SIDECAR_SOCKET
  --capability  one of ${CAPABILITY_NAMES.join(', ')}
  --input       work that is done well; Photo Swap takes two portraits of this repository when none is given
  --parameter   a setting of the submit, such as script=Hello; for live sessions prompt=TEXT, or voice with a definition
  --bad         the same work with this file instead, which must be refused with CODE
  COMMAND       starts the engine; it is also killed, and ended. Without one the engine has to run already`;

/** The command line is invalid; the message is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export interface Arguments {
  readonly socket: string;
  readonly command: readonly string[] | undefined;
  /** Work for an engine that renders. */
  readonly given?: ConformanceInputs;
  /** Sessions for an engine of live media. */
  readonly live?: LiveConformanceInputs;
}

/**
 * Parses the command line, without the names of node and of the program.
 * @returns 'help' if help was requested
 * @throws UsageError
 */
export function readArguments(words: readonly string[]): Arguments | 'help' {
  const at = words.indexOf('--');
  const command = at < 0 ? undefined : words.slice(at + 1);
  const values = optionsOf(at < 0 ? words : words.slice(0, at));
  if (values.help) return 'help';
  if (!values.socket) throw new UsageError('--socket is missing');
  const socket = resolve(values.socket);
  if (Buffer.byteLength(socket) > LONGEST_SOCKET)
    throw new UsageError(`--socket: ${socket} is longer than ${LONGEST_SOCKET} bytes`);
  if (command && !command[0]) throw new UsageError('there is no command after --');

  const { capability } = values;
  if (capability === undefined) throw new UsageError('--capability is missing');
  if (!isCapability(capability))
    throw new UsageError(`--capability: ${capability} is none of ${CAPABILITY_NAMES.join(', ')}`);
  const parameters = Object.fromEntries(values.parameter.map((text) => pair(text, '--parameter')));
  if (CAPABILITIES[capability].shape === 'session') {
    if (values.input.length + values.bad.length > 0)
      throw new UsageError(`${capability} takes no --input and no --bad, only --parameter`);
    const settings =
      capability === 'voice' ? { voice: readFileSync(VOICE, 'utf8'), ...parameters } : parameters;
    return { socket, command, live: { capability: capability as LiveCapability, settings } };
  }
  const roles = Object.keys(CAPABILITIES[capability].inputs);
  const file = (text: string, option: string): [role: string, path: string] => {
    const [role, path] = pair(text, option);
    if (!roles.includes(role))
      throw new UsageError(`${option}: ${capability} has no input ${role}, only ${roles.join(' and ')}`);
    if (!existsSync(path) || !statSync(path).isFile())
      throw new UsageError(`${option}: there is no file ${path}`);
    return [role, resolve(path)];
  };
  const files = values.input.map((text) => file(text, '--input'));
  const inputs: Inputs = files.length > 0 ? Object.fromEntries(files) : (DEFAULTS[capability] ?? {});
  for (const role of roles) {
    if (!inputs[role]) throw new UsageError(`${capability} needs --input ${role}=FILE`);
  }
  const bad = values.bad.map((text): BadSample => {
    const [code, rest = ''] = text.split(/:(.*)/s);
    if (!RENDER_ERROR_CODES.includes(code as RenderErrorCode))
      throw new UsageError(`--bad: ${code} is none of ${RENDER_ERROR_CODES.join(', ')}`);
    const [role, path] = file(rest, '--bad');
    return { name: text, inputs: { ...inputs, [role]: path }, code: code as RenderErrorCode };
  });
  return { socket, command, given: { capability, inputs, parameters, bad } };
}

function optionsOf(args: readonly string[]) {
  const several = { type: 'string', multiple: true, default: [] as string[] } as const;
  try {
    return parseArgs({
      args: [...args],
      options: {
        socket: { type: 'string' },
        capability: { type: 'string' },
        input: several,
        parameter: several,
        bad: several,
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    // The first sentence says what is wrong; the others explain arguments that begin with a dash.
    throw new UsageError(describeError(error).split(/\n|\. /)[0] ?? '');
  }
}

function pair(text: string, option: string): [name: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1)
    throw new UsageError(`${option}: ${text || 'nothing'} is no name and value with = between them`);
  return [text.slice(0, at), text.slice(at + 1)];
}
