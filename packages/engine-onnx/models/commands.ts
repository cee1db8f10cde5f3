import { copyFile, mkdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { describeError } from '@semblance/common/errors';
import { CONTRACTS } from '../contracts/catalog.ts';
import type { Contract } from '../contracts/contract.ts';
import { bindTensors } from '../contracts/fit.ts';
import { byKind, checkTogether, openModelDir, summaryFor, unacceptedLicence } from '../model-dir.ts';
import { findFile, sha256 } from '../model-files.ts';
import { OnnxFileError } from '../onnx-fields.ts';
import { type OnnxSummary, readOnnxSummary } from '../onnx-file.ts';
import { forbidsCommerce, knownLicence, knownModel } from './known-models.ts';
import { ManifestFile, type NewEntry } from './manifest-file.ts';
import { recognise, UnrecognisedError } from './recognise.ts';

/** A command cannot be carried out; the message says why and what to do. Nothing was changed. */
export class ModelsError extends Error {
  override readonly name = 'ModelsError';
}

export interface AddOptions {
  readonly directory: string;
  readonly file: string;
  /** Default: found by hash, tensors and file name. */
  readonly contract?: string | undefined;
  /** Default: the name of the contract. */
  readonly name?: string | undefined;
  /** Default: the published licence of a file whose hash is known. */
  readonly licence?: string | undefined;
  readonly options: Readonly<Record<string, number | string>>;
  /** File with the faiss index of a voice. */
  readonly index?: string | undefined;
  /** Who accepts a licence that forbids commercial use. */
  readonly acceptedBy?: string | undefined;
  readonly say: (line: string) => void;
}

export interface Added {
  readonly entry: NewEntry;
  /** Faults of the models as a set, such as a converter that the new one needs. */
  readonly notes: readonly string[];
}

/**
 * Adds a model file to a directory: copies it there unless it lies there already, and writes its entry.
 * @throws ModelsError, ManifestError
 */
export async function addModel(options: AddOptions): Promise<Added> {
  const { directory, file, say } = options;
  const facts = await stat(file).catch(() => undefined);
  if (!facts?.isFile()) throw new ModelsError(`${file}: there is no such file`);
  const { index } = options;
  if (index !== undefined && !(await stat(index).catch(() => undefined))?.isFile())
    throw new ModelsError(`${index}: there is no such file`);
  await mkdir(directory, { recursive: true });
  const manifest = await ManifestFile.open(directory);
  say(`reading ${basename(file)}, ${Math.ceil(facts.size / 1024 ** 2)} MiB`);
  const hash = await sha256(file);
  const summary = summaryOf(file);
  const contract = contractOf(options, hash, summary);
  const entry = entryOf(options, contract, hash);
  const { entries } = manifest;
  const same = entries.find(({ sha256: other }) => other.toLowerCase() === hash);
  if (same) throw new ModelsError(`${file}: it is there already as ${same.name}`);
  if (entries.some(({ name }) => name === entry.name))
    throw new ModelsError(`there is a model ${entry.name} already; remove it first, or say --name`);
  const beside = await besideOf(file);
  const placed = {
    ...entry,
    file: await place(directory, file, entries, say),
    ...(beside.length > 0 && {
      beside: await Promise.all(
        beside.map(async (each) => ({
          file: await place(directory, each, entries, say),
          sha256: await sha256(each),
        })),
      ),
    }),
    ...(options.index && {
      index: {
        file: await place(directory, options.index, entries, say),
        sha256: await sha256(options.index),
      },
    }),
  };
  manifest.add(placed);
  await manifest.save();
  return { entry: placed, notes: checkTogether(manifest.entries) };
}

function summaryOf(file: string): OnnxSummary {
  const summary = readable(file, () => readOnnxSummary(file));
  if (summary.external.length > 0)
    throw new ModelsError(
      `${file}: its weights lie in another file; save it as one, with onnx.save(onnx.load(FILE), NEW)`,
    );
  return summary;
}

function summaryWith(file: string, contract: Contract): OnnxSummary {
  return readable(file, () => summaryFor(file, contract));
}

/** @throws ModelsError when the file is no model */
function readable(file: string, read: () => OnnxSummary): OnnxSummary {
  try {
    return read();
  } catch (error) {
    if (error instanceof OnnxFileError) throw new ModelsError(`${file}: the file ${error.message}`);
    throw error;
  }
}

function contractOf({ contract, file }: AddOptions, hash: string, summary: OnnxSummary): Contract {
  if (contract === undefined) {
    try {
      return recognise(file, hash, summary).contract;
    } catch (error) {
      if (error instanceof UnrecognisedError) throw new ModelsError(`${file}: ${error.message}`);
      throw error;
    }
  }
  const named = CONTRACTS.get(contract);
  if (!named)
    throw new ModelsError(`there is no contract ${contract}; there are ${[...CONTRACTS.keys()].join(', ')}`);
  return named;
}

/** Returns the entry without its place. */
function entryOf(given: AddOptions, contract: Contract, hash: string): NewEntry {
  const { file } = given;
  const options = contract.options.safeParse(given.options);
  if (!options.success) {
    const [issue] = options.error.issues;
    throw new ModelsError(
      `${file}: it is a ${contract.name}; --option ${issue?.path.map(String).join('.')}=…: ${issue?.message}`,
    );
  }
  const { faults } = bindTensors(contract, byKind(options.data).options, summaryWith(file, contract));
  if (faults.length > 0) throw new ModelsError(`${file}: it is no ${contract.name}: ${faults.join('; ')}`);
  const public_ = knownLicence(contract.name);
  const isPublic = knownModel(hash)?.contract === contract.name;
  const licence = given.licence ?? (isPublic ? public_?.text : undefined);
  if (licence === undefined) {
    const stated = public_ ? `; public files of this contract are under "${public_.text}"` : '';
    throw new ModelsError(
      `${file}: it is a ${contract.name}, and no public file that we know; say its licence with --licence "…"${stated}`,
    );
  }
  const nonCommercial = given.licence === undefined ? public_?.nonCommercial : forbidsCommerce(licence);
  return {
    name: given.name ?? contract.name,
    file: basename(file),
    sha256: hash,
    licence,
    ...(nonCommercial ? { non_commercial: true } : {}),
    ...(given.acceptedBy ? { accepted_by: given.acceptedBy } : {}),
    contract: contract.name,
    ...(Object.keys(given.options).length > 0 ? { options: { ...given.options } } : {}),
  };
}

/** Returns the files with the name of a model and one ending more, such as `voice.onnx.json`. */
async function besideOf(file: string): Promise<readonly string[]> {
  const found = await Promise.all(
    ['.json', '.npz'].map(async (ending) => {
      const path = `${file}${ending}`;
      return (await stat(path).catch(() => undefined))?.isFile() ? [path] : [];
    }),
  );
  return found.flat();
}

/** Returns the path of the file below the directory, into which it is copied unless it lies there. */
async function place(
  directory: string,
  file: string,
  entries: readonly NewEntry[],
  say: (line: string) => void,
): Promise<string> {
  const root = await realpath(directory);
  const inside = relative(root, await realpath(file));
  if (!inside.startsWith('..') && !inside.startsWith('/')) return inside;
  const name = basename(file);
  const target = join(root, name);
  if (entries.some((entry) => entry.file === name) || (await stat(target).catch(() => undefined)))
    throw new ModelsError(`${target} is there already; rename the file that you add`);
  const part = join(root, `.${name}.part`);
  say(`copying it to ${target}`);
  try {
    await copyFile(file, part);
    await rename(part, target);
  } catch (error) {
    throw new ModelsError(`cannot copy ${file} to ${target}: ${describeError(error)}`);
  } finally {
    await rm(part, { force: true });
  }
  return name;
}

/** Records who accepts the licences of models. @throws ModelsError, ManifestError */
export async function acceptLicences(directory: string, names: readonly string[], by: string): Promise<void> {
  const manifest = await ManifestFile.open(directory);
  for (const name of names) {
    known(manifest, name);
    manifest.set(name, 'accepted_by', by);
  }
  await manifest.save();
}

/**
 * Removes entries, and with `deleteFiles` their files.
 * @returns sentences about what is missing without them
 * @throws ModelsError, ManifestError
 */
export async function removeModels(
  directory: string,
  names: readonly string[],
  deleteFiles: boolean,
): Promise<readonly string[]> {
  const manifest = await ManifestFile.open(directory);
  const before = new Set(checkTogether(manifest.entries));
  for (const name of names) known(manifest, name);
  const removed = names.map((name) => manifest.remove(name));
  await manifest.save();
  if (deleteFiles) {
    const root = await realpath(directory);
    for (const entry of removed) {
      const found = entry && (await findFile(root, entry.file));
      if (found && 'path' in found) await rm(found.path);
    }
  }
  return checkTogether(manifest.entries).filter((fault) => !before.has(fault));
}

function known(manifest: ManifestFile, name: string): void {
  const { entries } = manifest;
  if (entries.some((entry) => entry.name === name)) return;
  const names = entries.map((entry) => entry.name).join(', ') || 'none';
  throw new ModelsError(`there is no model ${name}; there are: ${names}`);
}

/** Returns the lines of a table of the models. */
export async function listModels(directory: string): Promise<readonly string[]> {
  const { entries } = await ManifestFile.open(directory);
  if (entries.length === 0) return [`${directory} has no models; add one with "npm run models -- add FILE"`];
  const { models } = await openModelDir(directory);
  const fitting = new Set(models.map(({ name }) => name));
  const rows = entries.map((entry) => {
    const state = fitting.has(entry.name) ? 'fits' : unacceptedLicence(entry) ? 'LICENCE' : 'DOES NOT FIT';
    const stage = CONTRACTS.get(entry.contract)?.stage ?? '?';
    return [entry.name, stage, entry.contract, state, entry.sha256.slice(0, 12), entry.licence];
  });
  return table([['NAME', 'STAGE', 'CONTRACT', 'STATE', 'SHA-256', 'LICENCE'], ...rows]);
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
