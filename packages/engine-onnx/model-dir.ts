import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { CONTRACTS } from './contracts/catalog.ts';
import type { Contract, Stage } from './contracts/contract.ts';
import { type BoundTensor, bindTensors } from './contracts/fit.ts';
import { type ManifestEntry, ManifestError, readManifest } from './manifest.ts';
import { OnnxFileError } from './onnx-fields.ts';
import { type OnnxSummary, type OnnxTensorInfo, readOnnxSummary } from './onnx-file.ts';
import { checkSpeech, type SpeechFiles } from './speech/voice-file.ts';
import { durationsOf } from './speech/voice-graph.ts';

/** A model whose file matches the manifest and whose tensors match its contract. */
export interface CheckedModel {
  readonly name: string;
  readonly file: string;
  /** Path without symbolic links. */
  readonly path: string;
  readonly licence: string;
  readonly contract: Contract;
  readonly options: Readonly<Record<string, number>>;
  readonly inputs: readonly BoundTensor[];
  readonly outputs: readonly BoundTensor[];
  /** Whether all inputs and outputs accept several items at once. */
  readonly batch: boolean;
  /** The last initializer of the graph: the emap of an inswapper. */
  readonly lastInitializer: OnnxTensorInfo | undefined;
  readonly summary: OnnxSummary;
  /** Of a voice that speaks: what the files beside it say. */
  readonly speech?: SpeechFiles;
}

export interface ModelDir {
  readonly directory: string;
  readonly models: readonly CheckedModel[];
  /** Every fault, each with its file and tensor; empty when everything fits. */
  readonly faults: readonly string[];
}

/** Models of a directory cannot be used; the message names every fault. */
export class ModelDirError extends Error {
  override readonly name = 'ModelDirError';

  constructor(directory: string, faults: readonly string[]) {
    super(`the models in ${directory} do not fit:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
  }
}

/** Checks every model in the manifest of a directory: its place, its hash and its tensors. */
export async function openModelDir(directory: string, signal?: AbortSignal): Promise<ModelDir> {
  const faults: string[] = [];
  const models: CheckedModel[] = [];
  let root: string;
  let entries: readonly ManifestEntry[];
  try {
    root = await realpath(directory);
    entries = await readManifest(root);
  } catch (error) {
    if (error instanceof ManifestError) return { directory, models, faults: error.faults };
    return { directory, models, faults: [`${directory}: cannot be read: ${(error as Error).message}`] };
  }
  for (const entry of entries) {
    const result = await checkModel(root, entry, signal);
    if (Array.isArray(result))
      faults.push(...result.map((fault) => `${entry.name} (${entry.file}): ${fault}`));
    else models.push(result);
  }
  faults.push(...checkTogether(entries));
  return { directory, models, faults };
}

async function checkModel(
  root: string,
  entry: ManifestEntry,
  signal: AbortSignal | undefined,
): Promise<CheckedModel | string[]> {
  const contract = CONTRACTS.get(entry.contract);
  if (!contract)
    return [`there is no contract ${entry.contract}; there are ${[...CONTRACTS.keys()].join(', ')}`];
  const options = contract.options.safeParse(entry.options);
  if (!options.success) {
    return options.error.issues.map(
      ({ path, message }) => `options.${path.map(String).join('.')}: ${message}`,
    );
  }
  const located = await locate(root, entry.file);
  if ('fault' in located) return [located.fault];
  const { path } = located;
  const hash = await sha256(path, signal);
  if (hash !== entry.sha256) return [`sha256: expected ${entry.sha256}, found ${hash}`];
  let summary: OnnxSummary;
  try {
    summary = readOnnxSummary(path);
    if (contract.edit) summary = withOutput(summary, durationsOf(path, contract.edit));
  } catch (error) {
    if (error instanceof OnnxFileError) return [`the file ${error.message}`];
    throw error;
  }
  const faults: string[] = [];
  if (summary.external.length > 0) {
    const names = summary.external.slice(0, 3).join(', ');
    faults.push(
      `${names}: its data lie in another file, which the hash does not cover; save the model as one file`,
    );
  }
  const fitted = bindTensors(contract, options.data, summary);
  faults.push(...fitted.faults);
  if (contract.traits.identity === 'emap') faults.push(...checkEmap(summary.lastInitializer));
  const speech = contract.edit ? await checkSpeech(path, contract.edit, fitted.inputs) : undefined;
  if (speech && 'faults' in speech) faults.push(...speech.faults);
  if (faults.length > 0) return faults;
  return {
    name: entry.name,
    file: entry.file,
    path,
    licence: entry.licence,
    contract,
    options: options.data,
    inputs: fitted.inputs,
    outputs: fitted.outputs,
    batch: [...fitted.inputs, ...fitted.outputs].every(({ batch }) => batch),
    lastInitializer: summary.lastInitializer,
    summary,
    ...(speech && 'files' in speech && { speech: speech.files }),
  };
}

/** Returns the tensors of a model with one more output, of unknown shape, behind the first. */
function withOutput(summary: OnnxSummary, name: string): OnnxSummary {
  const [first, ...rest] = summary.outputs;
  const others = rest.filter((output) => output.name !== name);
  return {
    ...summary,
    outputs: [...(first ? [first] : []), { name, type: 'float32', dims: undefined }, ...others],
  };
}

async function locate(root: string, file: string): Promise<{ path: string } | { fault: string }> {
  let path: string;
  try {
    path = await realpath(join(root, file));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { fault: 'there is no such file' };
    return { fault: `cannot be read: ${(error as Error).message}` };
  }
  const below = relative(root, path);
  if (below.startsWith('..') || isAbsolute(below))
    return { fault: `is a link that leaves the model directory, to ${path}` };
  if (!(await stat(path)).isFile()) return { fault: 'is not a file' };
  return { path };
}

async function sha256(path: string, signal: AbortSignal | undefined): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, signal ? { signal } : {});
  return hash.digest('hex');
}

function checkEmap(last: OnnxTensorInfo | undefined): string[] {
  const wanted = 'expected emap, float32 or float16 [512, 512], as the last one of the graph';
  if (!last) return [`initializer: ${wanted}, found none`];
  const { name, type, dims, bytes } = last;
  const found = `initializer "${name}": ${wanted}, found ${type} [${dims.join(', ')}]`;
  if ((type !== 'float32' && type !== 'float16') || dims.join() !== '512,512') return [found];
  const needed = 512 * 512 * (type === 'float32' ? 4 : 2);
  const there = bytes ? bytes.end - bytes.start : 0;
  return there === needed ? [] : [`${found} with ${there} bytes of data, not ${needed}`];
}

/** Returns the faults of the models as a set, such as two models for a stage. */
function checkTogether(entries: readonly ManifestEntry[]): string[] {
  const faults: string[] = [];
  const byStage = new Map<Stage, ManifestEntry[]>();
  const present = new Set(entries.map(({ contract }) => contract));
  for (const entry of entries) {
    const contract = CONTRACTS.get(entry.contract);
    if (!contract) continue;
    byStage.set(contract.stage, [...(byStage.get(contract.stage) ?? []), entry]);
    for (const need of contract.needs ?? []) {
      if (!present.has(need))
        faults.push(
          `${entry.name} (${entry.file}): ${entry.contract} needs a ${need}, and the manifest has none`,
        );
    }
  }
  for (const [stage, several] of byStage) {
    if (several.length < 2 || several.every(({ contract }) => CONTRACTS.get(contract)?.several)) continue;
    const names = several.map(({ name, contract }) => `${name} (${contract})`).join(' and ');
    faults.push(`${stage}: ${names} would both do this stage; keep one of them`);
  }
  return faults;
}
