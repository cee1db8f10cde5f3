import { basename, extname } from 'node:path';
import { CONTRACTS } from '../contracts/catalog.ts';
import type { Contract } from '../contracts/contract.ts';
import { bindTensors } from '../contracts/fit.ts';
import { byKind, checkEmap, summaryFor } from '../model-dir.ts';
import { OnnxFileError } from '../onnx-fields.ts';
import type { OnnxSummary } from '../onnx-file.ts';
import { knownModel } from './known-models.ts';

/** How the contract of a file was found. */
export interface Recognised {
  readonly contract: Contract;
  /**
   * - hash: the file is a public one, byte for byte
   * - name: its tensors fit several contracts, and its name is that of one
   * - tensors: they fit one contract alone
   */
  readonly by: 'hash' | 'name' | 'tensors';
}

/** No contract, or more than one, can be found for a file; the message says what to do. */
export class UnrecognisedError extends Error {
  override readonly name = 'UnrecognisedError';
}

/**
 * Finds the contract of a model file by its hash, by its tensors, and, because several contracts have the same
 * tensors, by its name.
 * @throws UnrecognisedError
 */
export function recognise(path: string, sha256: string, summary: OnnxSummary): Recognised {
  const known = CONTRACTS.get(knownModel(sha256)?.contract ?? '');
  if (known) return { contract: known, by: 'hash' };
  const fitting = [...CONTRACTS.values()].filter((contract) => fits(contract, path, summary));
  const [only, ...others] = fitting;
  if (!only) throw new UnrecognisedError(`no contract fits its tensors: ${tensorsOf(summary)}`);
  if (others.length === 0) return { contract: only, by: 'tensors' };
  const named = nearest(fitting, plain(basename(path, extname(path))));
  if (named) return { contract: named, by: 'name' };
  throw new UnrecognisedError(
    `its tensors fit ${fitting.map(({ name }) => name).join(', ')}; say which with --contract`,
  );
}

function fits(contract: Contract, path: string, declared: OnnxSummary): boolean {
  let summary = declared;
  try {
    if (contract.edit) summary = summaryFor(path, contract);
  } catch (error) {
    // The graph lacks what the contract would make an output.
    if (error instanceof OnnxFileError) return false;
    throw error;
  }
  // Options without a default, such as the rate of a voice, are asked for after the contract is known.
  const options = contract.options.safeParse({});
  if (bindTensors(contract, options.success ? byKind(options.data).options : {}, summary).faults.length > 0)
    return false;
  return contract.traits.identity !== 'emap' || checkEmap(summary.lastInitializer).length === 0;
}

/** Returns the contract with the name of the file, else the only one whose name contains it or lies in it. */
function nearest(contracts: readonly Contract[], file: string): Contract | undefined {
  const equal = contracts.find(({ name }) => plain(name) === file);
  if (equal) return equal;
  const near = contracts.filter(({ name }) => file.includes(plain(name)) || plain(name).includes(file));
  return near.length === 1 ? near[0] : undefined;
}

/** `GPEN-BFR-512`, `gpen_bfr_512` → `gpenbfr512`; `GFPGANv1.4` → `gfpgan14`. */
function plain(name: string): string {
  return name
    .toLowerCase()
    .replaceAll(/v(?=\d)/g, '')
    .replaceAll(/[^a-z0-9]/g, '');
}

function tensorsOf({ inputs, outputs }: OnnxSummary): string {
  const list = (values: OnnxSummary['inputs']): string =>
    values
      .slice(0, 8)
      .map(({ name, type, dims }) => `${name} ${type} [${dims?.join(', ') ?? '?'}]`)
      .join(', ');
  return `${list(inputs)} → ${list(outputs)}`;
}
