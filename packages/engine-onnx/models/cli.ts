import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '@semblance/common/errors';
import { OWNER_OPTIONS_SETTING, ownerOptionsSetting } from '@semblance/common/owner-options';
import { ManifestError } from '../manifest.ts';
import { unacceptedLicence } from '../model-dir.ts';
import { checkDirectory } from './check.ts';
import { acceptLicences, addModel, listModels, ModelsError, removeModels } from './commands.ts';
import { FetchError, fetchModels } from './fetch.ts';

const USAGE = `usage: npm run --silent models -- COMMAND [--dir DIRECTORY]

  add FILE…              hashes the files, finds their contracts, and writes them into the manifest
    --contract NAME        where the tensors fit several contracts
    --name NAME            what job records call the model; default: its contract
    --licence TEXT         of a file that is not a known public one
    --option KEY=VALUE     an option of the contract, such as sample_rate=40000
    --index FILE           the faiss index of a voice
    --by NAME              who accepts a licence that forbids commercial use
  accept NAME… --by NAME accepts such licences later
  list                   the models of the manifest
  check [PROVIDERS]      what fits, what is offered, what is missing; with providers such as cuda,cpu
                         each model is also loaded and run once
  fetch SET…             brings the models of sets, manifests whose entries have a url, into the directory;
                         SEMBLANCE_MODEL_AUTHORIZATION is sent as Authorization
  remove NAME…           takes models out of the manifest; with --delete-files their files too

  --dir                  the model directory; default: SEMBLANCE_MODEL_DIR`;

/** The command line is invalid; the message is one line. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

const OPTIONS = {
  help: { type: 'boolean', short: 'h' },
  dir: { type: 'string' },
  contract: { type: 'string' },
  name: { type: 'string' },
  licence: { type: 'string' },
  option: { type: 'string', multiple: true },
  index: { type: 'string' },
  by: { type: 'string' },
  'delete-files': { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parse>['values'];
type Say = (line: string) => void;

interface Command {
  readonly options: readonly (keyof Values)[];
  run(names: readonly string[], values: Values, directory: string, say: Say): Promise<number>;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  add: { options: ['contract', 'name', 'licence', 'option', 'index', 'by'], run: add },
  accept: { options: ['by'], run: accept },
  list: { options: [], run: list },
  check: { options: [], run: check },
  fetch: { options: [], run: fetchSets },
  remove: { options: ['delete-files'], run: remove },
};

/**
 * Runs `npm run models`.
 * @param words the command line after the program
 * @returns the exit status: 0 done, 1 a model does not fit or a command failed, 2 a wrong command line
 */
export async function runModels(words: readonly string[], out: Say, err: Say): Promise<number> {
  try {
    const { values, positionals } = parse(words);
    const [name, ...rest] = positionals;
    if (values.help || name === undefined) {
      (values.help ? out : err)(USAGE);
      return values.help ? 0 : 2;
    }
    const command = COMMANDS[name];
    if (!command) throw new UsageError(`there is no command ${name}`);
    for (const option of Object.keys(values) as (keyof Values)[])
      if (option !== 'dir' && option !== 'help' && !command.options.includes(option))
        throw new UsageError(`--${option}: ${name} has no such option`);
    const directory = values.dir ?? process.env.SEMBLANCE_MODEL_DIR;
    if (!directory) throw new UsageError('say the model directory with --dir, or set SEMBLANCE_MODEL_DIR');
    return await command.run(rest, values, resolve(directory), out);
  } catch (error) {
    if (error instanceof UsageError) {
      err(`${error.message}\n\n${USAGE}`);
      return 2;
    }
    const told =
      error instanceof ModelsError || error instanceof ManifestError || error instanceof FetchError;
    if (!told) throw error;
    err(describeError(error));
    return 1;
  }
}

function parse(words: readonly string[]) {
  try {
    return parseArgs({ args: [...words], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(describeError(error));
  }
}

async function add(files: readonly string[], values: Values, directory: string, say: Say): Promise<number> {
  if (files.length === 0) throw new UsageError('add: say at least one file');
  const single = (['contract', 'name', 'option', 'index'] as const).find(
    (option) => values[option] !== undefined,
  );
  if (files.length > 1 && single)
    throw new UsageError(`--${single} is for one file; add the files one by one`);
  const options = optionsOf(values.option ?? []);
  const { contract, name, licence, by: acceptedBy } = values;
  const index = values.index && resolve(values.index);
  let notes: readonly string[] = [];
  for (const file of files) {
    const added = await addModel({
      ...{ directory, file: resolve(file), contract, name, licence, index, acceptedBy },
      options,
      say,
    });
    const { entry } = added;
    notes = added.notes;
    say(`added ${entry.name}: ${entry.contract}, licence ${entry.licence}`);
    const gate = unacceptedLicence(entry);
    if (gate) say(`the engine does not start with it yet: ${gate}`);
  }
  for (const note of notes) say(`note: ${note}`);
  return 0;
}

function optionsOf(pairs: readonly string[]): Record<string, number | string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [key = '', value = ''] = pair.split('=', 2);
      if (!/^[a-z][a-z_]*$/.test(key) || value.trim() === '')
        throw new UsageError(`--option ${pair}: must be a name, "=" and a value, such as blend=0.7`);
      // The contract judges whether it takes a number or a word.
      return [key, Number.isFinite(Number(value)) ? Number(value) : value];
    }),
  );
}

async function accept(
  names: readonly string[],
  { by }: Values,
  directory: string,
  say: Say,
): Promise<number> {
  if (names.length === 0) throw new UsageError('accept: say at least one model');
  if (!by?.trim()) throw new UsageError('accept: say with --by who accepts the licence');
  await acceptLicences(directory, names, by.trim());
  say(`${by.trim()} accepts the licences of ${names.join(', ')}`);
  return 0;
}

async function list(names: readonly string[], _: Values, directory: string, say: Say): Promise<number> {
  if (names.length > 0) throw new UsageError('list takes no names');
  for (const line of await listModels(directory)) say(line);
  return 0;
}

async function check(given: readonly string[], _: Values, directory: string, say: Say): Promise<number> {
  if (given.length > 1) throw new UsageError('check: say the providers as one word, such as cuda,cpu');
  const owner = ownerOptionsSetting.safeParse(process.env[OWNER_OPTIONS_SETTING]);
  if (!owner.success)
    throw new UsageError(`check: ${OWNER_OPTIONS_SETTING} ${owner.error.issues[0]?.message}`);
  const { text, fits } = await checkDirectory(directory, given[0], owner.data);
  say(text.trimEnd());
  return fits ? 0 : 1;
}

async function fetchSets(sets: readonly string[], _: Values, directory: string, say: Say): Promise<number> {
  if (sets.length === 0) throw new UsageError('fetch: say at least one file with a model set');
  const ending = new AbortController();
  const end = (name: string): void => ending.abort(new FetchError(`ended by ${name}; run it again to go on`));
  const signals = ['SIGINT', 'SIGTERM'] as const;
  for (const name of signals) process.once(name, end);
  try {
    const authorization = process.env.SEMBLANCE_MODEL_AUTHORIZATION;
    await fetchModels({ sets, directory, authorization, signal: ending.signal, say });
    return 0;
  } finally {
    for (const name of signals) process.off(name, end);
  }
}

async function remove(
  names: readonly string[],
  values: Values,
  directory: string,
  say: Say,
): Promise<number> {
  if (names.length === 0) throw new UsageError('remove: say at least one model');
  const left = await removeModels(directory, names, values['delete-files'] === true);
  say(`removed ${names.join(', ')}`);
  for (const fault of left) say(`note: ${fault}`);
  return 0;
}
