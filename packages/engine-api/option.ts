/**
 * An option: what a render may be told beyond the fields of the API, such as a number of steps. An engine announces
 * its options with their bounds; its owner sets them, and lists those that callers may give. As in the resources, a
 * value travels as text, which the option gives its type.
 */
export interface EngineOption {
  /** {@link OPTION_NAME} */
  readonly name: string;
  readonly type: OptionType;
  /** Bounds of a number, both included. */
  readonly minimum?: number;
  readonly maximum?: number;
  /** Values of a choice. */
  readonly choices?: readonly string[];
  /** Most characters of a text. Default: {@link MAX_OPTION_TEXT} */
  readonly maxLength?: number;
  /** What a render without it does, as text; absent when that is no value of it. */
  readonly default?: string;
  /** English: what it changes, in one sentence. */
  readonly description: string;
}

export const OPTION_TYPES = ['integer', 'number', 'boolean', 'choice', 'text'] as const;
export type OptionType = (typeof OPTION_TYPES)[number];

export type OptionValue = number | boolean | string;

/** Options of one render: name → value. Those that are left out have the engine's default. */
export type RenderOptions = Readonly<Record<string, OptionValue>>;

export const OPTION_NAME = /^[a-z][a-z0-9_]{0,63}$/;
/** Most options of a capability, and most values of a choice. */
export const MAX_OPTIONS = 32;
/** Most options that one caller may give. */
export const MAX_GIVEN_OPTIONS = 16;
/** Most characters of a text; those beyond U+FFFF count twice. */
export const MAX_OPTION_TEXT = 2_000;
const MAX_OPTION_DESCRIPTION = 300;

const INTEGER = /^-?\d{1,16}$/;
const NUMBER = /^-?(\d{1,16}(\.\d{1,16})?|\.\d{1,16})(e[+-]?\d{1,3})?$/i;

/** Returns the value that a text means for an option; undefined when it means none, or one out of bounds. */
export function optionValue(option: EngineOption, text: string): OptionValue | undefined {
  const { type, minimum = -Infinity, maximum = Infinity, choices = [], maxLength = MAX_OPTION_TEXT } = option;
  switch (type) {
    case 'integer':
    case 'number': {
      const value = (type === 'integer' ? INTEGER : NUMBER).test(text) ? Number(text) : Number.NaN;
      const holds = type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value);
      return holds && value >= minimum && value <= maximum ? value : undefined;
    }
    case 'boolean':
      return text === 'true' || text === 'false' ? text === 'true' : undefined;
    case 'choice':
      return choices.includes(text) ? text : undefined;
    case 'text':
      return text.length <= maxLength && text.isWellFormed() && !text.includes('\0') ? text : undefined;
  }
}

/** Returns what a value of an option must be, worded to follow `must be`. */
export function describeValues({
  type,
  minimum,
  maximum,
  choices = [],
  maxLength = MAX_OPTION_TEXT,
}: EngineOption): string {
  if (type === 'boolean') return 'true or false';
  if (type === 'choice') return `one of ${choices.join(', ')}`;
  if (type === 'text') return `text of at most ${maxLength} characters`;
  const number = type === 'integer' ? 'a whole number' : 'a number';
  if (minimum !== undefined && maximum !== undefined) return `${number} from ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `${number} from ${minimum}`;
  return maximum === undefined ? number : `${number} up to ${maximum}`;
}

/** Returns what is wrong with an option as an engine announces it, in one sentence; undefined when nothing is. */
export function announcementFault(option: EngineOption): string | undefined {
  const { name, type, minimum, maximum, choices = [], maxLength, description } = option;
  if (!OPTION_NAME.test(name))
    return `the name of an option is ${JSON.stringify(name.slice(0, 64))}: lower case letters, digits and _, at most 64`;
  if (!OPTION_TYPES.includes(type))
    return `the type of the option ${name} is none of ${OPTION_TYPES.join(', ')}`;
  if (description.trim() === '' || description.length > MAX_OPTION_DESCRIPTION)
    return `the description of the option ${name} has 1 to ${MAX_OPTION_DESCRIPTION} characters`;
  const isNumber = type === 'integer' || type === 'number';
  for (const bound of [minimum, maximum])
    if (bound !== undefined && !(isNumber && Number.isFinite(bound)))
      return `the option ${name} has bounds that it cannot have`;
  if (minimum !== undefined && maximum !== undefined && minimum > maximum)
    return `the minimum of the option ${name} is above its maximum`;
  if (type === 'choice' ? choices.length === 0 || choices.length > MAX_OPTIONS : choices.length > 0)
    return `the option ${name} must have 1 to ${MAX_OPTIONS} choices if it is a choice, and otherwise none`;
  if (
    choices.some((choice) => choice === '' || choice.length > 64) ||
    new Set(choices).size !== choices.length
  )
    return `the choices of the option ${name} have 1 to 64 characters, none twice`;
  if (maxLength !== undefined && !(type === 'text' && maxLength >= 1 && maxLength <= MAX_OPTION_TEXT))
    return `the option ${name} has a length that it cannot have: 1 to ${MAX_OPTION_TEXT} for a text`;
  if (option.default !== undefined && optionValue(option, option.default) === undefined)
    return `the default of the option ${name} must be ${describeValues(option)}`;
  return undefined;
}

/** Returns what is wrong with the announced options of one capability; undefined when nothing is. */
export function announcementsFault(options: readonly EngineOption[]): string | undefined {
  if (options.length > MAX_OPTIONS) return `at most ${MAX_OPTIONS} options`;
  const names = new Set<string>();
  for (const option of options) {
    const fault = announcementFault(option);
    if (fault !== undefined) return fault;
    if (names.has(option.name)) return `the option ${option.name} is there twice`;
    names.add(option.name);
  }
  return undefined;
}

/** A fault of a given option, for the one who gave it. */
export interface OptionFault {
  readonly name: string;
  /** Worded to follow the name. */
  readonly fault: string;
}

/** Returns the faults of given options: those that are not among the allowed ones, and values out of bounds. */
export function optionFaults(
  allowed: readonly EngineOption[],
  given: Readonly<Record<string, string>>,
): readonly OptionFault[] {
  return Object.entries(given).flatMap(([name, text]) => {
    const option = allowed.find((one) => one.name === name);
    if (!option) return [{ name, fault: 'is not among the options' }];
    const fault = `must be ${describeValues(option)}`;
    return optionValue(option, text) === undefined ? [{ name, fault }] : [];
  });
}

/** Returns options with their values as a render takes them. They must have no faults. */
export function optionValues(
  options: readonly EngineOption[],
  given: Readonly<Record<string, string>>,
): RenderOptions {
  return Object.fromEntries(
    options.flatMap((option) => {
      const text = given[option.name];
      const value = text === undefined ? undefined : optionValue(option, text);
      return value === undefined ? [] : [[option.name, value]];
    }),
  );
}

/** Returns a sentence that lists options with their values, such as `seed (a whole number from 0)`. */
export function listOptions(options: readonly EngineOption[]): string {
  return options.map((option) => `${option.name} (${describeValues(option)})`).join(', ');
}

/**
 * Returns the options that all lists have, each within the bounds of all: what a render may be told wherever it runs.
 * An option whose types or choices leave nothing in common is left out.
 */
export function commonOptions(lists: readonly (readonly EngineOption[])[]): readonly EngineOption[] {
  const [first = [], ...others] = lists;
  return first.flatMap((option) => {
    const same = others.map((list) => list.find(({ name }) => name === option.name));
    let common: EngineOption | undefined = option;
    for (const other of same) common = common && other && both(common, other);
    return common ? [common] : [];
  });
}

function both(a: EngineOption, b: EngineOption): EngineOption | undefined {
  if (a.type !== b.type) return undefined;
  const {
    minimum: _least,
    maximum: _most,
    choices: _choices,
    maxLength: _length,
    default: _default,
    ...rest
  } = a;
  const minimum = largest(a.minimum, b.minimum);
  const maximum = smallest(a.maximum, b.maximum);
  const maxLength = smallest(a.maxLength, b.maxLength);
  const choices = a.choices?.filter((choice) => b.choices?.includes(choice));
  if (choices?.length === 0 || (minimum ?? -Infinity) > (maximum ?? Infinity)) return undefined;
  return {
    ...rest,
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
    ...(choices ? { choices } : {}),
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(a.default !== undefined && a.default === b.default ? { default: a.default } : {}),
  };
}

function largest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);
}

function smallest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
