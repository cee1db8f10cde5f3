import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { describeError } from '@semblance/common/errors';
import { escapeCommanding } from '@semblance/common/plain-text';
import { BrokenChainError } from '../audit/chain.ts';
import { InvalidReceiptError } from '../media/verify-receipt.ts';
import type { Command } from './command.ts';
import { COMMANDS } from './commands.ts';
import { type AdminCalls, AdminError, connectAdmin, type Endpoint, findEndpoint } from './connection.ts';
import { csvLine } from './csv.ts';
import { cellOf, tableOf } from './table.ts';
import { type Flags, type Format, meantBy, parseArguments, UsageError, usage } from './usage.ts';

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
    stdout.write(`${usage(meantBy(args, COMMANDS))}\n`);
    return args.length === 0 ? 2 : 0;
  }
  let calls: AdminCalls | undefined;
  try {
    const { command, flags, format } = parseArguments(args, COMMANDS);
    const alone = command.alone?.(flags);
    if (!alone)
      calls = await connectAdmin(endpointOf(flags, env), flags.get('actor') ?? systemUser(), () =>
        stderr.write('The control plane is still at it. Books of many jobs take minutes to recompute.\n'),
      );
    const print = (line: string) => void stdout.write(`${escapeCommanding(line)}\n`);
    const answer = await (alone ?? command.run(flags, calls as AdminCalls, print));
    if (answer !== undefined) stdout.write(json ? `${document(answer)}\n` : written(answer, command, format));
    return 0;
  } catch (error) {
    const known =
      error instanceof AdminError ||
      error instanceof UsageError ||
      error instanceof BrokenChainError ||
      error instanceof InvalidReceiptError;
    const code = known ? error.code : 'internal_error';
    const message = known ? error.message : describeError(error);
    if (json) stdout.write(`${document({ error: { code, message } })}\n`);
    else stderr.write(`${error instanceof UsageError ? lines(message) : escapeCommanding(message)}\n`);
    return error instanceof UsageError ? 2 : 1;
  } finally {
    calls?.close();
  }
}

/** @throws UsageError, AdminError */
function endpointOf(flags: Flags, env: NodeJS.ProcessEnv): Endpoint {
  const file = flags.get('token-file');
  if (file === undefined) return findEndpoint(env);
  let token: string;
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw new UsageError(`--token-file: ${(cause as Error).message}`);
  }
  if (token === '') throw new UsageError(`--token-file: there is no token in ${file}`);
  return { ...findEndpoint(env), token };
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

type Row = Record<string, unknown>;

function written(
  answer: Row | readonly Row[],
  { columns = [], tables = {} }: Command,
  format: Format,
): string {
  if (!isList(answer)) return readable(answer, tables);
  if (format === 'text') return tableOf(answer, columns);
  const lines = [columns, ...answer.map((row) => columns.map((name) => row[name]))];
  return lines.map((line) => `${csvLine(line)}\n`).join('');
}

const isList = (answer: Row | readonly Row[]): answer is readonly Row[] => Array.isArray(answer);

/** Returns an answer line by line, and the lists in it as tables after that. */
function readable(answer: Row, tables: NonNullable<Command['tables']>): string {
  const fields = Object.entries(answer).filter(([name]) => !Object.hasOwn(tables, name));
  const width = Math.max(0, ...fields.map(([name]) => name.length));
  const lines = fields.map(([name, value]) => `${name.padEnd(width)}  ${cellOf(value)}\n`);
  const lists = Object.entries(tables).map(
    ([name, columns]) => `\n${name}\n${tableOf((answer[name] ?? []) as Row[], columns)}`,
  );
  return [...lines, ...lists].join('');
}
