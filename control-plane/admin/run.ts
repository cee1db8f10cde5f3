import { userInfo } from 'node:os';
import { describeError } from '@semblance/common/errors';
import { escapeCommanding } from '@semblance/common/plain-text';
import { COMMANDS } from './commands.ts';
import { type AdminCalls, AdminError, connectAdmin, findEndpoint } from './connection.ts';
import { parseArguments, UsageError, usage } from './usage.ts';

export interface Terminal {
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/**
 * Runs the admin command: `<noun> <verb> --flag value …`. With `--json` it prints one JSON document, the answer or
 * `{error: {code, message}}`, otherwise text. Its output never contains terminal control sequences, whatever was
 * stored or sent. Exit code 0 when done, 1 when refused or failed, 2 when misused.
 */
export async function runAdmin(args: readonly string[], { env, stdout, stderr }: Terminal): Promise<number> {
  const json = args.includes('--json');
  if (args.length === 0 || args.includes('--help') || args[0] === 'help') {
    stdout.write(`${usage(COMMANDS)}\n`);
    return args.length === 0 ? 2 : 0;
  }
  let calls: AdminCalls | undefined;
  try {
    const { command, flags } = parseArguments(args, COMMANDS);
    calls = await connectAdmin(findEndpoint(env), flags.get('actor') ?? systemUser(), () =>
      stderr.write('The control plane is still at it. Books of many jobs take minutes to recompute.\n'),
    );
    const answer = await command.run(flags, calls);
    stdout.write(json ? `${document(answer)}\n` : readable(answer));
    return 0;
  } catch (error) {
    const known = error instanceof AdminError || error instanceof UsageError;
    const code = known ? error.code : 'internal_error';
    const message = known ? error.message : describeError(error);
    if (json) stdout.write(`${document({ error: { code, message } })}\n`);
    else stderr.write(`${error instanceof UsageError ? lines(message) : escapeCommanding(message)}\n`);
    return error instanceof UsageError ? 2 : 1;
  } finally {
    calls?.close();
  }
}

/** Returns the user of this machine; its number if it has no name. */
function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** The usage of a command has several lines. */
function lines(message: string): string {
  return message.split('\n').map(escapeCommanding).join('\n');
}

function document(answer: unknown): string {
  return escapeCommanding(JSON.stringify(answer));
}

function readable(answer: Record<string, unknown> | readonly Record<string, unknown>[]): string {
  if (Array.isArray(answer)) return answer.map((item) => readable(item)).join('\n') || 'none\n';
  const width = Math.max(...Object.keys(answer).map((name) => name.length));
  return Object.entries(answer)
    .map(([name, value]) => `${name.padEnd(width)}  ${text(value)}\n`)
    .join('');
}

function text(value: unknown): string {
  if (value === null || value === undefined) return '-';
  return typeof value === 'object' ? document(value) : escapeCommanding(String(value));
}
