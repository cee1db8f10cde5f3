import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { CAPABILITIES, type Capability, isCapability } from '@semblance/engine-api/capabilities';
import type { RenderResult } from '@semblance/engine-api/engine';
import {
  FINDING_CODE,
  type Findings,
  MAX_FINDINGS,
  MAX_HINT_LENGTH,
  MAX_LICENCE_LENGTH,
  MAX_MODEL_NAME,
  MAX_MODELS,
  SHA256_HEX,
} from '@semblance/engine-api/findings';
import { checkedOutput } from '../assets/work-dir.ts';
import { checkContent, decodedSeconds, OUTPUT_TYPES } from './output.ts';
import type { Subject } from './subject.ts';

export interface Rendered {
  readonly result: RenderResult;
  readonly outputDir: string;
  readonly progress: readonly (readonly [fraction: number, stage: string, secondsLeft?: number])[];
  readonly tookMs: number;
}

/** Checks what an engine says of itself. @throws AssertionError */
export function checkStatement(info: Subject['info'], capability: Capability): void {
  const { name, version, capabilities, concurrency } = info;
  assert.match(name, /^[a-z0-9][a-z0-9-]{0,39}$/, 'the name');
  assert.match(version, /^[\x21-\x7e]{1,20}$/, 'the version');
  assert.ok(
    capabilities.some((each) => each.capability === capability),
    `it offers no ${capability}`,
  );
  const names = capabilities.map((each) => each.capability);
  assert.equal(new Set(names).size, names.length, 'it offers a capability twice');
  for (const each of capabilities) {
    assert.ok(isCapability(each.capability), `${each.capability} is no capability`);
    assert.equal(CAPABILITIES[each.capability].shape, 'job', `${each.capability} is no work for an engine`);
    assert.ok(isWhole(each.slots, 1, 1_024), `${each.capability}: slots ${each.slots}`);
    assert.ok(isWhole(each.memoryMib, 1, 16_777_216), `${each.capability}: memory ${each.memoryMib} MiB`);
    for (const [limit, value] of Object.entries(each.limits ?? {})) {
      assert.ok(Number.isFinite(value) && value > 0, `${each.capability}: ${limit} ${value}`);
    }
  }
  if (concurrency !== undefined) assert.ok(isWhole(concurrency, 1, 1_024), `concurrency ${concurrency}`);
}

/** Checks a successful render against the contract. @throws AssertionError */
export async function checkRender(
  { result, outputDir, tookMs }: Rendered,
  capability: Capability,
): Promise<void> {
  const unit = CAPABILITIES[capability].unit;
  assert.ok(unit !== 'minute', `${capability} is no job`);
  await checkedOutput(result.outputPath, outputDir);
  const types: readonly string[] = OUTPUT_TYPES[unit];
  assert.ok(
    types.includes(result.contentType),
    `the content type is ${result.contentType}, not ${types.join(' or ')}`,
  );
  await checkContent(result.outputPath, result.contentType);
  assert.deepEqual(await readdir(outputDir), [result.outputPath.slice(outputDir.length + 1)], 'other files');
  assert.equal(result.units.unit, unit, 'the unit');
  if (unit === 'image') assert.equal(result.units.quantity, 1, 'one picture is one image');
  else await checkSeconds(result);
  assert.ok(result.stages.length > 0 && result.stages.length <= 30, `${result.stages.length} stages`);
  for (const { name, milliseconds } of result.stages) {
    assert.ok(name.length > 0 && name.length <= 64, `a stage called ${JSON.stringify(name)}`);
    assert.ok(milliseconds >= 0 && milliseconds <= tookMs + 50, `${name} took ${milliseconds} ms`);
  }
  assert.ok(Object.keys(result.details).length <= 32, 'at most 32 details');
  if (result.findings) checkFindings(result.findings, capability);
}

/** Checks what an engine found out about the inputs. @throws AssertionError */
export function checkFindings({ faces, hints, models = [] }: Findings, capability: Capability): void {
  if (faces) {
    const { found, changed, left } = faces;
    for (const count of [found, changed, ...left.map((one) => one.count)])
      assert.ok(isWhole(count, 0, 1e6), `${count} faces`);
    const others = left.reduce((sum, { count }) => sum + count, 0);
    assert.equal(found, changed + others, 'faces found are those changed and those left alone');
    for (const { reason } of left) assert.match(reason, FINDING_CODE, 'the reason of faces left alone');
  }
  assert.ok(hints.length <= MAX_FINDINGS, `${hints.length} hints`);
  for (const { code, message, input } of hints) {
    assert.match(code, FINDING_CODE, 'the code of a hint');
    assert.ok(message.length > 0 && message.length <= MAX_HINT_LENGTH, `the message of ${code}`);
    if (input !== undefined)
      assert.ok(input in CAPABILITIES[capability].inputs, `${code} is about ${input}, which is no input`);
  }
  assert.ok(models.length <= MAX_MODELS, `${models.length} models`);
  for (const { name, sha256, licence } of models) {
    assert.ok(name.length > 0 && name.length <= MAX_MODEL_NAME, `a model called ${JSON.stringify(name)}`);
    assert.match(sha256, SHA256_HEX, `the sha256 of ${name}`);
    assert.ok(licence.length > 0 && licence.length <= MAX_LICENCE_LENGTH, `the licence of ${name}`);
  }
}

/** Checks the progress of a successful render. @throws AssertionError */
export function checkProgress(progress: Rendered['progress']): void {
  assert.ok(progress.length >= 2, `progress was told ${progress.length} times`);
  let last = 0;
  for (const [fraction, stage, secondsLeft] of progress) {
    assert.ok(fraction >= last && fraction <= 1, `progress went from ${last} to ${fraction}`);
    assert.ok(stage.length > 0 && stage.length <= 64, `a stage called ${JSON.stringify(stage)}`);
    if (secondsLeft !== undefined) assert.ok(Number.isFinite(secondsLeft) && secondsLeft >= 0, 'time left');
    last = fraction;
  }
  assert.ok(last >= 0.5, `progress ended at ${last}`);
}

async function checkSeconds({ outputPath, units }: RenderResult): Promise<void> {
  const { quantity } = units;
  assert.ok(Number.isInteger(Math.round(quantity * 1e6) / 1e3), `${quantity} s is finer than a millisecond`);
  const decoded = await decodedSeconds(outputPath);
  if (decoded === undefined) return;
  assert.ok(
    Math.abs(decoded - quantity) < 0.05,
    `${quantity} s were told of an output whose picture lasts ${decoded} s`,
  );
}

const isWhole = (value: number, least: number, most: number) =>
  Number.isInteger(value) && value >= least && value <= most;
