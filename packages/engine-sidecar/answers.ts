import { CAPABILITIES, type Capability, isCapability } from '@semblance/engine-api/capabilities';
import {
  type EngineCapability,
  type EngineLimits,
  type OnProgress,
  RENDER_ERROR_CODES,
  RenderError,
  type RenderResult,
} from '@semblance/engine-api/engine';
import { announcementsFault, type EngineOption } from '@semblance/engine-api/option';
import { type Gender, type Speech, speechFault } from '@semblance/engine-api/speech';
import type {
  EngineSpeech,
  GetInfoResponse,
  EngineOption as OptionMessage,
  RenderFailure,
  RenderProgress,
  RenderResponse,
  RenderResult as ResultMessage,
} from '@semblance/proto/semblance/engine/v1/engine';

import { broken, quoted } from './contract-error.ts';
import { checkedFindings } from './findings.ts';

const NAME = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/;
const VERSION = /^[\x21-\x7e]{1,20}$/;
const FILE_NAME = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/;
const CONTENT_TYPE = /^[a-z]+\/[a-z0-9.+-]{1,100}$/;
const MAX = {
  stages: 30,
  details: 32,
  name: 64,
  detail: 256,
  message: 1_024,
  memoryMib: 16_777_216,
} as const;

export interface SidecarInfo {
  readonly name: string;
  readonly version: string;
  readonly capabilities: readonly EngineCapability[];
  readonly concurrency: number;
  /** Memory on the card that it holds with its models, in MiB; undefined: it does not say. */
  readonly vramMib: number | undefined;
  /** Whether it looks at pictures before a render. */
  readonly inspects: boolean;
}

/** @throws ContractError */
export function checkName({ name, version }: { readonly name: string; readonly version: string }): void {
  if (!NAME.test(name)) broken(`its name is ${quoted(name)}: lower case letters, digits and -, at most 40`);
  if (!VERSION.test(version)) broken(`its version is ${quoted(version)}: 1 to 20 printable characters`);
}

/** @throws ContractError */
export function checkedInfo(info: GetInfoResponse): SidecarInfo {
  const { name, version, concurrency, inspects } = info;
  checkName(info);
  if (concurrency < 1 || concurrency > 1_024) broken(`its concurrency is ${concurrency}, not 1 to 1024`);
  if (info.capabilities.length === 0) broken('it offers no capability');
  const seen = new Set<string>();
  if (info.vramMib < 0 || info.vramMib > MAX.memoryMib) broken(`it holds ${info.vramMib} MiB on the card`);
  const capabilities = info.capabilities.map((offered): EngineCapability => {
    const { capability, slots, memoryMib, vramMib, limits, options, severalFaces, speech } = offered;
    if (!isCapability(capability)) broken(`it offers ${quoted(capability)}, which is no capability`);
    // An offered capability is switched on for all accounts, and no sidecar carries live media.
    if (CAPABILITIES[capability].shape !== 'job')
      broken(`it offers ${capability}, which is no work for an engine`);
    if (seen.has(capability)) broken(`it offers ${capability} twice`);
    seen.add(capability);
    if (slots < 0 || slots > 1_024) broken(`${capability} takes ${slots} slots, not 1 to 1024`);
    if (memoryMib < 0 || memoryMib > MAX.memoryMib) broken(`${capability} takes ${memoryMib} MiB of memory`);
    if (vramMib < 0 || vramMib > MAX.memoryMib) broken(`${capability} takes ${vramMib} MiB on the card`);
    return {
      capability,
      slots: slots || 1,
      memoryMib,
      ...(vramMib > 0 ? { vramMib } : {}),
      ...checkedLimits(capability, limits),
      // Programs in other languages seldom decode what phones write.
      plainPictures: true,
      ...checkedOptions(capability, options),
      ...(severalFaces ? { severalFaces } : {}),
      ...checkedSpeech(capability, speech),
    };
  });
  const vramMib = info.vramMib || undefined;
  return { name, version, capabilities, concurrency, vramMib, inspects };
}

function checkedOptions(
  capability: string,
  said: readonly OptionMessage[],
): { options?: readonly EngineOption[] } {
  if (said.length === 0) return {};
  const options = said.map(
    ({ name, type, minimum, maximum, choices, maxLength, default: own, description }) => ({
      name,
      type: type as EngineOption['type'],
      ...(minimum === undefined ? {} : { minimum }),
      ...(maximum === undefined ? {} : { maximum }),
      ...(choices.length > 0 ? { choices } : {}),
      ...(maxLength === 0 ? {} : { maxLength }),
      ...(own === undefined ? {} : { default: own }),
      description,
    }),
  );
  const fault = announcementsFault(options);
  if (fault !== undefined) broken(`${capability}: ${fault}`);
  return { options };
}

function checkedSpeech(capability: string, said: EngineSpeech | undefined): { speech?: Speech } {
  if (!said) return {};
  if (capability !== 'avatar') broken(`it announces voices for ${capability}, which speaks nothing`);
  const speech: Speech = {
    voices: said.voices.map(({ id, language, gender, variants }) => ({
      id,
      language,
      ...(gender === '' ? {} : { gender: gender as Gender }),
      ...(variants === '' ? {} : { variants }),
    })),
    variants: said.variants,
    languages: said.languages,
  };
  const fault = speechFault(speech);
  if (fault !== undefined) broken(`${capability}: ${fault}`);
  return { speech };
}

function checkedLimits(
  capability: string,
  said: { maxInputBytes: bigint; maxPixels: bigint; maxSeconds: number } | undefined,
): { limits?: EngineLimits } {
  if (!said) return {};
  const limits = Object.entries(said).map(([name, value]): [string, number] => [name, Number(value)]);
  for (const [name, value] of limits) {
    if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER))
      broken(`${capability} has the limit ${name} of ${value}`);
  }
  return { limits: Object.fromEntries(limits.filter(([, value]) => value > 0)) };
}

/** The answer of a finished render, before its file is taken. */
export type CheckedResult = Omit<RenderResult, 'outputPath'> & { readonly outputFile: string };

/** Reads the answers of one render in order. */
export interface AnswerReader {
  /** @throws ContractError; RenderError when the engine refused the work */
  accept(answer: RenderResponse): void;
  /** Returns the result when the stream has ended. @throws ContractError when there was none */
  end(): CheckedResult;
}

export function createAnswerReader(capability: Capability, onProgress: OnProgress): AnswerReader {
  let reached = 0;
  let result: CheckedResult | undefined;

  function progress({ fraction, stage, secondsLeft }: RenderProgress): void {
    if (!(fraction >= 0 && fraction <= 1)) broken(`its progress is ${fraction}, not 0 to 1`);
    if (fraction < reached) broken(`its progress fell from ${reached} to ${fraction}`);
    if (stage === '' || stage.length > MAX.name) broken('a stage has 1 to 64 characters');
    if (secondsLeft !== undefined && !(secondsLeft >= 0 && Number.isFinite(secondsLeft))) {
      broken(`${secondsLeft} seconds cannot be left`);
    }
    reached = fraction;
    onProgress(fraction, stage, secondsLeft);
  }

  return {
    accept({ message }) {
      if (result) broken(`it said ${message?.$case ?? 'something'} after its result`);
      if (message?.$case === 'progress') progress(message.value);
      else if (message?.$case === 'result') result = checkedResult(capability, message.value);
      else if (message?.$case === 'failure') throw refusalOf(capability, message.value);
      else broken('it sent an empty message');
    },
    end() {
      if (!result) broken('it ended without a result');
      return result;
    },
  };
}

/** Returns a failure as the error of an engine. @throws ContractError */
export function refusalOf(capability: Capability, said: RenderFailure): RenderError {
  const code = RENDER_ERROR_CODES.find((known) => known === said.code);
  if (!code) broken(`it failed with the unknown code ${quoted(said.code)}`);
  const text = said.message.trim();
  if (text === '' || text.length > MAX.message) broken('the message of a failure has 1 to 1024 characters');
  return new RenderError(code, text, { findings: checkedFindings(capability, said.findings) });
}

function checkedResult(capability: Capability, said: ResultMessage): CheckedResult {
  const { outputFile, contentType, units, stages } = said;
  if (!FILE_NAME.test(outputFile)) broken(`${quoted(outputFile)} is no name of a file in output_dir`);
  if (!CONTENT_TYPE.test(contentType)) broken(`${quoted(contentType)} is no content type`);
  const { unit } = CAPABILITIES[capability];
  const milliUnits = Number(units?.milliUnits ?? 0n);
  if (!units || unit === 'minute' || units.unit !== unit)
    broken(`${capability} is measured in the unit ${unit}`);
  if (!Number.isSafeInteger(milliUnits) || milliUnits <= 0)
    broken(`it measured ${units.milliUnits} thousandths of the unit`);
  if (stages.length > MAX.stages) broken(`at most ${MAX.stages} stages`);
  for (const { name, milliseconds, engine } of stages) {
    if (name === '' || name.length > MAX.name || engine.length > MAX.name)
      broken('a stage has 1 to 64 characters');
    if (!(milliseconds >= 0 && Number.isFinite(milliseconds))) broken(`a stage took ${milliseconds} ms`);
  }
  const findings = checkedFindings(capability, said.findings);
  const details = Object.entries(said.details);
  if (details.length > MAX.details) broken(`at most ${MAX.details} details`);
  if (details.some(([name, value]) => name.length > MAX.name || value.length > MAX.detail)) {
    broken('a detail is too long');
  }
  return {
    outputFile,
    contentType,
    units: { unit, quantity: milliUnits / 1_000 },
    stages: stages.map(({ name, milliseconds, engine }) => ({
      name,
      milliseconds,
      ...(engine ? { engine } : {}),
    })),
    details: Object.fromEntries(details),
    ...(findings && { findings }),
  };
}
