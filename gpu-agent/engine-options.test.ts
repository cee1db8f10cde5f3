import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AttemptState, type StartAttemptRequest } from '@semblance/proto/semblance/agent/v1/agent';
import type { MarkOptions } from '@semblance/provenance/provenance';
import {
  createHarness,
  type Harness,
  NO_MARKS,
  type TestAgent,
  until,
} from '@semblance/testkit/gpu-agent/harness';
import { OPTIONED } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadSettings } from './settings.ts';

const { ATTEMPT_STATE_SUCCEEDED: SUCCEEDED, ATTEMPT_STATE_FAILED: FAILED } = AttemptState;
const SETTING = 'SEMBLANCE_ENGINE_OPTIONS';

let harness: Harness;
let agent: TestAgent | undefined;
beforeAll(async () => {
  harness = await createHarness();
});
afterEach(async () => {
  await agent?.close();
  agent = undefined;
});
afterAll(() => harness.close());

async function start(owner: unknown, env: Record<string, string> = {}): Promise<TestAgent> {
  agent = await harness.agent({ engines: [OPTIONED], env: { [SETTING]: JSON.stringify(owner), ...env } });
  return agent;
}
async function run(of: TestAgent, change: Partial<StartAttemptRequest> = {}) {
  const watch = of.watch();
  const request = of.request('options', change);
  await of.start(request);
  const ended = await watch.ended(request.ref);
  await of.acknowledge(request.ref);
  watch.cancel();
  return ended;
}
const SWAP = { set: { strength: 0.25, look: 'film' }, callers: ['strength', 'note'] };

describe('an agent', () => {
  it('states the options of its engine, the owner’s values, and what callers may give', async () => {
    const of = await start({ 'face-swap-image': SWAP });
    await until(
      async () => ((await of.resource())?.status?.engines?.length ?? 0) > 0,
      'the engine is stated',
    );
    const [engine] = (await of.resource())?.status?.engines ?? [];
    expect(engine?.capabilities[0]?.options).toEqual([
      {
        ...{ name: 'strength', type: 'number', minimum: 0, maximum: 1, default: '0.25' },
        ...{ description: 'How much.', callers: true },
      },
      { name: 'note', type: 'text', maxLength: 40, description: 'What is said.', callers: true },
      {
        ...{ name: 'look', type: 'choice', choices: ['plain', 'film'], default: 'film' },
        description: 'How it looks.',
      },
    ]);
    expect(engine?.capabilities[1]?.options?.some(({ callers }) => callers)).toBe(false);
  });

  it('gives the engine what the owner set, and in its place what the caller gave, and tells what was used', async () => {
    const of = await start({ 'face-swap-image': SWAP });
    const told = await run(of, { engineOptions: { strength: '1', note: 'über' } });
    expect(told.state).toBe(SUCCEEDED);
    const { hints, options } = told.output?.findings ?? { hints: [] };
    expect(JSON.parse(hints[0]?.message ?? '')).toEqual({ strength: 1, note: 'über', look: 'film' });
    expect(options).toEqual({ strength: '1', note: 'über', look: 'film' });
    const plain = await run(of);
    expect(plain.output?.findings?.options).toEqual({ strength: '0.25', look: 'film' });
  });

  it('states in the marks of the output what was used, but nothing that somebody wrote', async () => {
    const stated: MarkOptions['options'][] = [];
    agent = await harness.agent({
      engines: [OPTIONED],
      env: { [SETTING]: JSON.stringify({ 'face-swap-image': SWAP }) },
      provenance: {
        ...NO_MARKS,
        async mark({ path, options }) {
          stated.push(options);
          return path;
        },
      },
    });
    await run(agent, { engineOptions: { strength: '1', note: 'of a customer' } });
    expect(stated).toEqual([{ strength: '1', look: 'film' }]);
  });

  it.each<[string, Record<string, string>, string]>([
    [
      'that the owner keeps',
      { look: 'film' },
      'The engine option look is not among the options: face-swap-image takes strength (a number from 0 to 1), note (text of at most 40 characters).',
    ],
    [
      'that no engine has',
      { seed: '7' },
      'The engine option seed is not among the options: face-swap-image takes',
    ],
    ['out of bounds', { strength: '1.5' }, 'The engine option strength must be a number from 0 to 1: '],
    ['of another type', { strength: 'much' }, 'The engine option strength must be a number from 0 to 1: '],
  ])('fails work with an option %s, and says what it takes', async (_what, engineOptions, message) => {
    const ended = await run(await start({ 'face-swap-image': SWAP }), { engineOptions });
    expect(ended.state).toBe(FAILED);
    expect(ended.failure).toMatchObject({
      code: 'processing_failed',
      message: expect.stringContaining(message),
    });
  });

  it('takes no option where the owner says nothing, and tells of none', async () => {
    const of = await start({});
    expect((await run(of, { engineOptions: { strength: '1' } })).failure?.message).toBe(
      'The engine option strength is not among the options: face-swap-image takes none.',
    );
    expect((await run(of)).output?.findings?.options).toEqual({});
  });

  it('checks the text of an option like a script', async () => {
    const words = join(harness.dir, 'option-words.txt');
    await writeFile(words, 'buy now\n');
    const of = await start(
      { 'face-swap-image': SWAP },
      { SEMBLANCE_CONTENT_CHECK: 'word-list', SEMBLANCE_CONTENT_WORD_LIST: words },
    );
    expect((await run(of, { engineOptions: { note: 'Buy NOW!' } })).failure?.code).toBe('content_rejected');
    expect((await run(of, { engineOptions: { note: 'Hello' } })).state).toBe(SUCCEEDED);
  });

  it.each<[string, unknown, string]>([
    [
      'an option that the engine has not',
      { set: { steps: 20 } },
      'the engine test has no option steps for this capability: it has strength',
    ],
    ['a value out of bounds', { set: { strength: 7 } }, 'strength must be a number from 0 to 1.'],
    ['callers’ options that the engine has not', { callers: ['seed'] }, 'no option seed'],
  ])('does not offer a capability with %s, and says why', async (_what, owner, message) => {
    const of = await start({ 'face-swap': owner });
    await until(async () => ((await of.resource())?.status?.unavailable?.length ?? 0) > 1, 'it is stated');
    const { status } = (await of.resource()) ?? {};
    expect(status?.engines?.[0]?.capabilities.map(({ name }) => name)).toEqual(['face-swap-image']);
    expect(status?.unavailable?.find(({ name }) => name === 'face-swap')?.message).toContain(
      `${SETTING}, face-swap: `,
    );
    expect(status?.unavailable?.find(({ name }) => name === 'face-swap')?.message).toContain(message);
    expect((await run(of)).state).toBe(SUCCEEDED);
  });

  it('does not start with a setting that is no such JSON', () => {
    expect(() => loadSettings({ [SETTING]: '{"face-swap":{"set":{"strength":[1]}}}' })).toThrow(
      /SEMBLANCE_ENGINE_OPTIONS: face-swap\.set\.strength/,
    );
  });
});

it.each<[string, Record<string, string>]>([
  ['a name that none has', { 'No Name': '1' }],
  ['a text beyond all measure', { note: 'x'.repeat(2_001) }],
  ['too many', Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`o${i}`, '1']))],
])('a start with %s is malformed', async (_what, engineOptions) => {
  const of = await start({ 'face-swap-image': SWAP });
  await expect(of.start(of.request('options', { engineOptions }))).rejects.toThrow(/engine option/);
});
