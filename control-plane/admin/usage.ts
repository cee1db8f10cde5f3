import { type Micros, microsToUsd, parseUsd } from '@semblance/common/money';

/** The command line is invalid; `message` says how the command is written. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly code = 'usage';
  readonly retryable = false;
}

export interface FlagSpec {
  readonly name: string;
  /** Placeholder of its value; empty for a flag without a value, whose presence means `yes`. */
  readonly value: string;
  readonly required: boolean;
  readonly help: string;
}

/** Flags of every command. */
const COMMON_FLAGS: readonly FlagSpec[] = [
  {
    name: 'actor',
    value: 'NAME',
    required: false,
    help: 'who the audit names beside the token; the user of this machine when left out',
  },
  {
    name: 'token-file',
    value: 'F',
    required: false,
    help: 'a file with the admin token, also /dev/stdin; SEMBLANCE_ADMIN_TOKEN when left out',
  },
];

export interface CommandSpec {
  /** Noun and verb, such as `account create`. */
  readonly name: string;
  readonly help: string;
  readonly flags: readonly FlagSpec[];
  readonly columns?: readonly string[];
}

export type Flags = ReadonlyMap<string, string>;

const FORMATS = ['json', 'csv'] as const;
export type Format = (typeof FORMATS)[number] | 'text';

/**
 * Finds the command in the arguments and parses its flags (`--flag value` or `--flag=value`). A noun alone means
 * `list`, if it has that verb.
 * @throws UsageError naming the fault and how the command is written
 */
export function parseArguments<C extends CommandSpec>(
  args: readonly string[],
  commands: readonly C[],
): { command: C; flags: Flags; format: Format } {
  const formats = FORMATS.filter((format) => args.includes(`--${format}`));
  const [noun, ...others] = args.filter((arg) => arg !== '--json' && arg !== '--csv');
  const hasVerb = others[0] !== undefined && !others[0].startsWith('--');
  const [verb, rest] = hasVerb ? [others[0], others.slice(1)] : ['list', others];
  const command = commands.find(({ name }) => name === `${noun} ${verb}`);
  if (!command) {
    const asked = [noun, others[0]].filter((word) => word !== undefined).join(' ');
    throw new UsageError(
      `${asked ? `There is no command "${asked}".` : 'A command is needed.'}\n\n${usage(commands)}`,
    );
  }
  if (formats.length > 1) throw new UsageError('--json and --csv exclude each other.');
  if (formats[0] === 'csv' && !command.columns)
    throw new UsageError(`${command.name} answers no list, which --csv is for.\n\n${usage([command])}`);
  const flags = new Map<string, string>();
  for (let i = 0; i < rest.length; i++) {
    const arg = rest[i] as string;
    const [, name, inline] = /^--([a-z][a-z-]*)(?:=(.*))?$/s.exec(arg) ?? [];
    const spec = [...command.flags, ...COMMON_FLAGS].find((flag) => flag.name === name);
    if (!spec || name === undefined)
      throw new UsageError(`"${arg}" means nothing to ${command.name}.\n\n${usage([command])}`);
    if (flags.has(name)) throw new UsageError(`--${name} is given twice.\n\n${usage([command])}`);
    const value = inline ?? (spec.value === '' ? 'yes' : rest[++i]);
    if (value === undefined || (inline === undefined && value.startsWith('--')))
      throw new UsageError(`--${name} needs a value.\n\n${usage([command])}`);
    flags.set(name, value);
  }
  const missing = command.flags.filter((flag) => flag.required && !flags.has(flag.name));
  if (missing.length > 0) {
    const names = missing.map((flag) => `--${flag.name}`).join(', ');
    throw new UsageError(`${command.name} needs ${names}.\n\n${usage([command])}`);
  }
  return { command, flags, format: formats[0] ?? 'text' };
}

/** Returns the commands that are meant by the first words of arguments; all of them if none is. */
export function meantBy<C extends CommandSpec>(
  args: readonly string[],
  commands: readonly C[],
): readonly C[] {
  const words = args.filter((arg) => !arg.startsWith('-') && arg !== 'help');
  const [noun, verb] = words;
  const ofNoun = commands.filter(({ name }) => name.split(' ')[0] === noun);
  const exact = ofNoun.filter(({ name }) => name === `${noun} ${verb}`);
  return [exact, ofNoun, commands].find(({ length }) => length > 0) ?? commands;
}

/** Returns how the commands are written, with the meaning of each flag. */
export function usage(commands: readonly CommandSpec[]): string {
  const lines = commands.map(({ name, help, flags, columns }) => {
    const written = flags.map((flag) => {
      const text = `--${flag.name} ${flag.value}`.trim();
      return flag.required ? text : `[${text}]`;
    });
    const head = `  ${[name, ...written, ...(columns ? ['[--csv]'] : [])].join(' ')}\n      ${help}`;
    const meanings = [...flags, ...COMMON_FLAGS].map((flag) => `      --${flag.name}: ${flag.help}`);
    return commands.length === 1 ? [head, ...meanings].join('\n') : head;
  });
  return `Usage: npm run --silent admin -- <noun> <verb> --flag value … [--actor NAME] [--token-file F] [--json]\n\n${lines.join('\n')}`;
}

/** Converts micro-dollars of an answer, which has 64-bit numbers as text, to USD. */
export const usdOf = (micros: unknown): number => microsToUsd(BigInt(micros as string));

/** Parses an amount in USD into micro-dollars. @throws UsageError */
export function usdFlag(flags: Flags, name: string): Micros | undefined {
  const text = flags.get(name);
  if (text === undefined) return undefined;
  try {
    return parseUsd(text);
  } catch (error) {
    throw new UsageError(`--${name}: ${(error as Error).message}`);
  }
}

/** Parses a whole number. @throws UsageError */
export function wholeFlag(flags: Flags, name: string): number | undefined {
  const text = flags.get(name);
  if (text === undefined) return undefined;
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`--${name} must be a whole number, not "${text}"`);
  return Number(text);
}

const SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3_600, d: 86_400 };

/**
 * Parses the value of a setting; undefined: never, for ever. @param isTime whether units of time are allowed
 * @throws UsageError
 */
export function settingFlag(flags: Flags, name: string, isTime: boolean): number | undefined {
  const text = flags.get(name) ?? '';
  if (text === 'never') return undefined;
  const [, digits, unit = ''] = /^(\d{1,9})([smhd]?)$/.exec(text) ?? [];
  if (digits === undefined || (unit !== '' && !isTime))
    throw new UsageError(
      `--${name} must be a whole number${isTime ? ', a time such as 30d,' : ''} or never, not "${text}"`,
    );
  return Number(digits) * (SECONDS[unit] ?? 1);
}

/** Returns true for `yes`, false for `no` or nothing. @throws UsageError */
export function yesFlag(flags: Flags, name: string): boolean {
  const text = flags.get(name) ?? 'no';
  if (text !== 'yes' && text !== 'no') throw new UsageError(`--${name} must be yes or no, not "${text}"`);
  return text === 'yes';
}

/** Returns the field of a request that a flag sets, if it is given. */
export const given = (flags: Flags, flag: string, field: string) =>
  flags.has(flag) ? { [field]: flags.get(flag) } : {};

/** Number of shown entries of a list. */
export const LIST_LIMIT: FlagSpec = {
  name: 'limit',
  value: 'N',
  required: false,
  help: '1 to 1000; 100 when left out',
};

/** @returns 0 when the flag is absent */
export function listLimit(flags: Flags): number {
  const asked = wholeFlag(flags, 'limit');
  if (asked === 0) throw new UsageError('--limit is from 1 to 1000');
  return asked ?? 0;
}
