import { realpath } from 'node:fs/promises';
import { CONTRACTS } from './contracts/catalog.ts';
import type { Contract } from './contracts/contract.ts';
import { type BoundTensor, bindTensors } from './contracts/fit.ts';
import { VOICE } from './contracts/rvc.ts';
import { checkIvfFlat, FaissIndexError } from './faiss-index.ts';
import { type Manifest, type ManifestEntry, ManifestError, readManifest, type Step } from './manifest.ts';
import { locate } from './model-files.ts';
import { forbidsCommerce } from './models/known-models.ts';
import { OnnxFileError } from './onnx-fields.ts';
import { type OnnxSummary, type OnnxTensorInfo, readOnnxSummary } from './onnx-file.ts';
import { checkSpeech, type SpeechFiles } from './speech/voice-file.ts';
import { durationsOf } from './speech/voice-graph.ts';
import { CLASSES } from './stages/class-graph.ts';

/** A model whose file matches the manifest and whose tensors match its contract. */
export interface CheckedModel {
  readonly name: string;
  readonly file: string;
  /** Path without symbolic links. */
  readonly path: string;
  /** SHA-256 of the file, 64 lower-case hexadecimal digits. */
  readonly sha256: string;
  readonly licence: string;
  readonly contract: Contract;
  readonly options: Readonly<Record<string, number>>;
  /** The options that are words. */
  readonly choices: Readonly<Record<string, string>>;
  readonly inputs: readonly BoundTensor[];
  readonly outputs: readonly BoundTensor[];
  /** Whether all inputs and outputs accept several items at once. */
  readonly batch: boolean;
  /** The last initializer of the graph: the emap of an inswapper. */
  readonly lastInitializer: OnnxTensorInfo | undefined;
  readonly summary: OnnxSummary;
  /** The features of a voice: a faiss IndexIVFFlat. */
  readonly index:
    | {
        readonly file: string;
        /** Path without symbolic links. */
        readonly path: string;
        readonly sha256: string;
        /** Number of features. */
        readonly count: number;
      }
    | undefined;
  /** Of a voice that speaks: what the files beside it say. */
  readonly speech?: SpeechFiles;
}

export interface ModelDir {
  readonly directory: string;
  readonly models: readonly CheckedModel[];
  /** What is done to a face, in this order. */
  readonly order: readonly Step[];
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
  let manifest: Manifest;
  try {
    root = await realpath(directory);
    manifest = await readManifest(root);
  } catch (error) {
    const unread = { directory, models, order: [] };
    if (error instanceof ManifestError) return { ...unread, faults: error.faults };
    return { ...unread, faults: [`${directory}: cannot be read: ${(error as Error).message}`] };
  }
  const { models: entries, order } = manifest;
  for (const entry of entries) {
    const result = await checkModel(root, entry, signal);
    if (Array.isArray(result))
      faults.push(...result.map((fault) => `${entry.name} (${entry.file}): ${fault}`));
    else models.push(result);
  }
  faults.push(...checkTogether(entries), ...checkOptions(models, entries));
  return { directory, models, order, faults };
}

async function checkModel(
  root: string,
  entry: ManifestEntry,
  signal: AbortSignal | undefined,
): Promise<CheckedModel | string[]> {
  const contract = CONTRACTS.get(entry.contract);
  if (!contract)
    return [`there is no contract ${entry.contract}; there are ${[...CONTRACTS.keys()].join(', ')}`];
  const unaccepted = unacceptedLicence(entry);
  if (unaccepted) return [unaccepted];
  const parsed = contract.options.safeParse(entry.options);
  if (!parsed.success) {
    return parsed.error.issues.map(
      ({ path, message }) => `options.${path.map(String).join('.')}: ${message}`,
    );
  }
  const { options, choices } = byKind(parsed.data);
  const located = await locate(root, entry, signal);
  if ('fault' in located) return [located.fault];
  const { path } = located;
  for (const each of entry.beside ?? []) {
    const found = await locate(root, each, signal);
    if ('fault' in found) return [`beside ${each.file}: ${found.fault}`];
  }
  let summary: OnnxSummary;
  try {
    summary = summaryFor(path, contract);
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
  const fitted = bindTensors(contract, options, summary);
  faults.push(...fitted.faults);
  if (contract.traits.identity === 'emap') faults.push(...checkEmap(summary.lastInitializer));
  const { edit } = contract;
  const speech = edit && edit !== 'classes' ? await checkSpeech(path, edit, fitted.inputs) : undefined;
  if (speech && 'faults' in speech) faults.push(...speech.faults);
  if (faults.length > 0) return faults;
  const index = await checkIndex(root, entry, contract, fitted.inputs, signal);
  if (index && 'fault' in index) return [`index: ${index.fault}`];
  return {
    name: entry.name,
    file: entry.file,
    path,
    sha256: entry.sha256,
    licence: entry.licence,
    contract,
    options,
    choices,
    inputs: fitted.inputs,
    outputs: edit === 'classes' ? fitted.outputs.map(classesOf) : fitted.outputs,
    batch: [...fitted.inputs, ...fitted.outputs].every(({ batch }) => batch),
    lastInitializer: summary.lastInitializer,
    summary,
    index,
    ...(speech && 'files' in speech && { speech: speech.files }),
  };
}

/**
 * Reads what a model declares, with the output that its contract adds to it.
 * @throws OnnxFileError
 */
export function summaryFor(path: string, { edit }: Contract): OnnxSummary {
  const summary = readOnnxSummary(path);
  return edit && edit !== 'classes' ? withOutput(summary, durationsOf(path, edit)) : summary;
}

/** Returns the output of a graph that `classGraph` made, in place of the values of its classes. */
function classesOf(values: BoundTensor): BoundTensor {
  const [items = 1, , ...size] = values.dims;
  return { ...values, name: CLASSES, type: 'float32', dims: [items, 1, ...size] };
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

/** Returns the numbers and the words among options. */
export function byKind(
  values: Readonly<Record<string, number | string>>,
): Pick<CheckedModel, 'options' | 'choices'> {
  const options: Record<string, number> = {};
  const choices: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'number') options[name] = value;
    else choices[name] = value;
  }
  return { options, choices };
}

/** Returns the fault of an entry whose licence forbids commercial use and whom nobody has accepted. */
export function unacceptedLicence({
  name,
  licence,
  non_commercial: marked,
  accepted_by: by,
}: Pick<ManifestEntry, 'name' | 'licence' | 'non_commercial' | 'accepted_by'>): string | undefined {
  if (by !== undefined || !(marked ?? forbidsCommerce(licence))) return undefined;
  return `licence: "${licence}" forbids commercial use; if yours keeps to it, run "npm run models -- accept ${name} --by NAME", or set accepted_by`;
}

/** Checks the index of a voice. @returns where it is; undefined without one */
async function checkIndex(
  root: string,
  { index }: ManifestEntry,
  { stage, name }: Contract,
  inputs: readonly BoundTensor[],
  signal: AbortSignal | undefined,
): Promise<CheckedModel['index'] | { fault: string }> {
  if (!index) return undefined;
  if (stage !== VOICE) return { fault: `only a voice has one, and ${name} is none` };
  const located = await locate(root, index, signal);
  if ('fault' in located) return located;
  const wanted = inputs.find(({ role }) => role === 'feats')?.dims.at(-1);
  try {
    const { width, count } = await checkIvfFlat(located.path);
    if (width === wanted) return { ...index, path: located.path, count };
    return { fault: `${index.file} has features of ${width} numbers, and ${name} needs ${wanted}` };
  } catch (error) {
    if (error instanceof FaissIndexError) return { fault: `${index.file} ${error.message}` };
    throw error;
  }
}

export function checkEmap(last: OnnxTensorInfo | undefined): string[] {
  const wanted = 'expected emap, float32 or float16 [512, 512], as the last one of the graph';
  if (!last) return [`initializer: ${wanted}, found none`];
  const { name, type, dims, bytes } = last;
  const found = `initializer "${name}": ${wanted}, found ${type} [${dims.join(', ')}]`;
  if ((type !== 'float32' && type !== 'float16') || dims.join() !== '512,512') return [found];
  const needed = 512 * 512 * (type === 'float32' ? 4 : 2);
  const there = bytes ? bytes.end - bytes.start : 0;
  return there === needed ? [] : [`${found} with ${there} bytes of data, not ${needed}`];
}

/** Returns the faults of options that need a model for another stage. */
function checkOptions(models: readonly CheckedModel[], entries: readonly ManifestEntry[]): string[] {
  const present = new Set(entries.map(({ contract }) => CONTRACTS.get(contract)?.stage));
  return models.flatMap(({ name, file, contract, options, choices }) =>
    (contract.needsStages?.({ ...options, ...choices }) ?? [])
      .filter((stage) => !present.has(stage))
      .map((stage) => `${name} (${file}): its options need a model for ${stage}, and the manifest has none`),
  );
}

type TogetherEntry = Pick<ManifestEntry, 'name' | 'file' | 'contract'> &
  Partial<Pick<ManifestEntry, 'options'>>;

/** Returns the faults of the models as a set, such as two models for a stage. */
export function checkTogether(entries: readonly TogetherEntry[]): string[] {
  const faults: string[] = [];
  const byStage = new Map<string, TogetherEntry[]>();
  const present = new Set(entries.map(({ contract }) => CONTRACTS.get(contract)?.name));
  for (const entry of entries) {
    const contract = CONTRACTS.get(entry.contract);
    if (!contract) continue;
    const key = contract.several === 'by-contract' ? contract.name : contract.stage;
    byStage.set(key, [...(byStage.get(key) ?? []), entry]);
    for (const need of contract.needs ?? []) {
      if (!present.has(need))
        faults.push(
          `${entry.name} (${entry.file}): ${entry.contract} needs a ${need}, and the manifest has none`,
        );
    }
  }
  for (const [stage, several] of byStage) {
    const how = CONTRACTS.get(several[0]?.contract ?? '')?.several;
    if (several.length < 2 || how === true) continue;
    if (how === 'by-size') {
      // Only the last one may take every face.
      for (const { name, file, options = {} } of several.slice(0, -1)) {
        if (options.min_face !== undefined || options.max_face !== undefined) continue;
        faults.push(
          `${name} (${file}): takes every face, so the next model for ${stage} is never used; give it min_face or max_face`,
        );
      }
      continue;
    }
    const names = several.map(({ name, contract }) => `${name} (${contract})`).join(' and ');
    faults.push(`${stage}: ${names} would both do this stage; keep one of them`);
  }
  return faults;
}
