import { readdir } from 'node:fs/promises';
import { describeError } from '@semblance/common/errors';
import { type OwnerOptionsByCapability, ownerFault, ownerOptionsOf } from '@semblance/common/owner-options';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import { listOptions } from '@semblance/engine-api/option';
import { type CheckedModel, openModelDir } from '../model-dir.ts';
import { offersOf } from '../offers.ts';
import { optionsFor } from '../render-options.ts';
import type { FirstRun } from '../sessions/protocol.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { parseOnnxSettings } from '../settings.ts';
import { adviseOn } from './advice.ts';

/**
 * Checks which models of a directory fit their contracts, and says what the engine does with them.
 * @param providers as in SEMBLANCE_ONNX_PROVIDERS: the fitting models are loaded and run once; without it, nothing is
 *   loaded
 * @param owner what the owner says of options: with faults, not everything fits
 * @returns the text to print, and whether everything fits
 */
export async function checkDirectory(
  directory: string,
  providers?: string,
  owner: OwnerOptionsByCapability = {},
): Promise<{ text: string; fits: boolean }> {
  const { models, faults } = await openModelDir(directory);
  const ran =
    providers === undefined || models.length === 0 ? undefined : await run(directory, providers, models);
  const alone = new Set(ran?.runs.flatMap(({ model, alone: why }) => (why ? [model] : [])));
  const lines: string[] = [];
  for (const { name, contract, licence, batch, file, index } of models) {
    const batches = batch && !alone.has(name) ? ', takes batches' : '';
    lines.push(`fits      ${name}: ${contract.stage}, ${contract.name}${batches} (${file})`);
    lines.push(`          licence: ${licence}`);
    if (index) lines.push(`          index: ${index.count} features (${index.file})`);
    if (contract.traits.identity === 'own')
      lines.push(
        '          gives every face the identity that it was trained on, not that of the job’s face',
      );
  }
  for (const fault of faults) lines.push(`DOES NOT  ${fault}`);
  const named = new Set(models.map((model) => model.file));
  const files = await readdir(directory).catch(() => []);
  for (const file of files) {
    if (file.endsWith('.onnx') && !named.has(file) && !faults.some((fault) => fault.includes(`(${file})`))) {
      lines.push(`ignored   ${file}: the manifest does not name it`);
    }
  }
  for (const { model, provider } of ran?.runs ?? []) lines.push(`runs      ${model} on ${provider}`);
  for (const note of ran?.notes ?? []) lines.push(`note      ${note}`);
  if (ran?.fault !== undefined) lines.push(`DOES NOT  ${ran.fault}`);
  const fitting = faults.length === 0 && ran?.fault === undefined;
  const { options, optionFaults } = fitting ? optionsOf(models, owner) : { options: [], optionFaults: [] };
  for (const fault of optionFaults) lines.push(`DOES NOT  ${fault}`);
  const fits = fitting && optionFaults.length === 0;
  if (fits) {
    const { offers, missing, better } = adviseOn(models);
    for (const sentence of offers) lines.push(`offers    ${sentence}`);
    for (const sentence of options) lines.push(`options   ${sentence}`);
    for (const sentence of missing) lines.push(`missing   ${sentence}`);
    for (const sentence of better) lines.push(`better    ${sentence}`);
  } else lines.push('offers    Nothing until everything fits, because the engine takes a directory whole.');
  return { text: `${lines.join('\n')}\n`, fits };
}

/** Returns the options of each capability that the models offer, and what is wrong with the owner's. */
function optionsOf(models: readonly CheckedModel[], owner: OwnerOptionsByCapability) {
  const stages = new Set(models.map(({ contract }) => contract.stage));
  const offered = offersOf(stages, true).map(({ capability }) => {
    const options = optionsFor(capability, models);
    const fault = ownerFault('onnx', capability, ownerOptionsOf(owner, capability), options);
    return { capability, options, fault };
  });
  return {
    options: offered
      .filter(({ options }) => options.length > 0)
      .map(({ capability, options }) => `${CAPABILITIES[capability].title}: ${listOptions(options)}.`),
    optionFaults: offered.flatMap(({ fault }) => fault ?? []),
  };
}

interface Ran {
  readonly runs: readonly FirstRun[];
  readonly notes: readonly string[];
  readonly fault?: string;
}

/** Loads the fitting models and runs each as the engine does at warm-up. */
async function run(directory: string, providers: string, models: readonly CheckedModel[]): Promise<Ran> {
  try {
    const { pool, runs, notes } = await SessionPool.open(
      { ...parseOnnxSettings({ modelDir: directory, providers }), models, threads: 1 },
      new AbortController().signal,
    );
    await pool.close();
    return { runs, notes };
  } catch (error) {
    return { runs: [], notes: [], fault: describeError(error) };
  }
}
