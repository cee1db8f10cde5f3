import { CAPABILITIES, type Capability, isCapability } from '@semblance/engine-api/capabilities';
import {
  type EngineOption,
  listOptions,
  MAX_OPTIONS,
  OPTION_NAME,
  optionFaults,
  optionValues,
  type RenderOptions,
} from '@semblance/engine-api/option';
import { z } from 'zod';

/** What the owner of an agent says of the options of one capability. */
export interface OwnerOptions {
  /** Options of every render, as text. */
  readonly set: Readonly<Record<string, string>>;
  /** Names of the options that callers may give; what they give goes before what is set. */
  readonly callers: readonly string[];
}

export type OwnerOptionsByCapability = Readonly<Partial<Record<Capability, OwnerOptions>>>;

/** Name of the setting with the options, for messages. */
export const OWNER_OPTIONS_SETTING = 'SEMBLANCE_ENGINE_OPTIONS';

const NOTHING: OwnerOptions = { set: {}, callers: [] };
const name = z.string().regex(OPTION_NAME, 'must be the name of an option: lower case letters, digits and _');

const ownerOptions = z.record(
  z.string(),
  z.strictObject({
    set: z
      .record(name, z.union([z.string().max(2_000), z.number(), z.boolean()]).transform(String))
      .default({}),
    callers: z
      .array(name)
      .max(MAX_OPTIONS)
      .refine((names) => new Set(names).size === names.length, 'names an option twice')
      .default([]),
  }),
);

/** The setting, as an agent reads it: JSON, such as `{"face-swap": {"set": {"likeness": 0.4}, "callers": ["likeness"]}}`. */
export const ownerOptionsSetting = z
  .string()
  .default('{}')
  .transform((text, context): OwnerOptionsByCapability => {
    const parsed = ownerOptions.safeParse(jsonOf(text));
    const fault = parsed.success ? unknownCapability(Object.keys(parsed.data)) : sentenceOf(parsed.error);
    if (fault === undefined) return parsed.data as OwnerOptionsByCapability;
    context.addIssue({ code: 'custom', message: fault });
    return z.NEVER;
  });

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sentenceOf({ issues: [issue] }: z.ZodError): string {
  const path = issue?.path.map(String).join('.') ?? '';
  if (path === '') return 'must be JSON that maps capabilities to {"set": {…}, "callers": […]}';
  return `${path}: ${issue?.code === 'invalid_key' ? issue.issues[0]?.message : issue?.message}`;
}

function unknownCapability(names: readonly string[]): string | undefined {
  const unknown = names.find((one) => !isCapability(one) || CAPABILITIES[one].shape !== 'job');
  return unknown === undefined
    ? undefined
    : `names ${JSON.stringify(unknown.slice(0, 64))}, which is no capability of jobs`;
}

export function ownerOptionsOf(settings: OwnerOptionsByCapability, capability: Capability): OwnerOptions {
  return settings[capability] ?? NOTHING;
}

/**
 * Returns why an engine cannot offer a capability with the owner's options, in a sentence; undefined when it can.
 * @param options those that the engine announces for it
 */
export function ownerFault(
  engine: string,
  capability: Capability,
  { set, callers }: OwnerOptions,
  options: readonly EngineOption[] = [],
): string | undefined {
  const at = `${OWNER_OPTIONS_SETTING}, ${capability}`;
  const unknown = [...Object.keys(set), ...callers].find((one) => !options.some(({ name }) => name === one));
  if (unknown !== undefined) {
    const has = options.length > 0 ? `it has ${listOptions(options)}` : 'it has none';
    return `${at}: the engine ${engine} has no option ${unknown} for this capability: ${has}.`;
  }
  const [fault] = optionFaults(options, set);
  return fault && `${at}: ${fault.name} ${fault.fault}.`;
}

/** Returns the options that callers may give, each with what the owner set as its default. */
export function openOptions(
  options: readonly EngineOption[] | undefined,
  owner: OwnerOptions,
): readonly EngineOption[] {
  return announcedOptions(options, owner).filter(({ name }) => owner.callers.includes(name));
}

/** Returns all options, each with what the owner set as its default. */
export function announcedOptions(
  options: readonly EngineOption[] = [],
  { set }: OwnerOptions,
): readonly EngineOption[] {
  return options.map((option) => {
    const own = set[option.name];
    return own === undefined ? option : { ...option, default: own };
  });
}

/** What a render is told: as text, for records, and as the engine takes it. */
export interface UsedOptions {
  readonly texts: Readonly<Record<string, string>>;
  readonly values: RenderOptions;
}

/** Returns what the owner set, with what the caller gave in its place. Neither may have faults. */
export function usedOptions(
  options: readonly EngineOption[] = [],
  { set }: OwnerOptions,
  given: Readonly<Record<string, string>>,
): UsedOptions {
  const texts = { ...set, ...given };
  return { texts, values: optionValues(options, texts) };
}
