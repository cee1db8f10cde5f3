import type { EngineOption } from '@semblance/engine-api/option';
import { describe, expect, it } from 'vitest';
import {
  announcedOptions,
  openOptions,
  ownerFault,
  ownerOptionsSetting,
  usedOptions,
} from './owner-options.ts';

const LIKENESS: EngineOption = {
  name: 'likeness',
  type: 'number',
  minimum: 0,
  maximum: 1,
  default: '0.6',
  description: 'How much of the source.',
};
const SEED: EngineOption = { name: 'seed', type: 'integer', description: 'Seed.' };
const OWNER = { set: { likeness: '0.4' }, callers: ['seed'] };

describe('the setting', () => {
  it('takes values as JSON writes them', () => {
    const given = {
      'face-swap': { set: { likeness: 0.4, sharp: true, lora: 'film' }, callers: ['seed'] },
      avatar: {},
    };
    expect(ownerOptionsSetting.parse(JSON.stringify(given))).toEqual({
      'face-swap': { set: { likeness: '0.4', sharp: 'true', lora: 'film' }, callers: ['seed'] },
      avatar: { set: {}, callers: [] },
    });
    expect(ownerOptionsSetting.parse(undefined)).toEqual({});
  });

  it.each<[string, string, RegExp]>([
    ['no JSON', '{', /^must be JSON that maps capabilities/],
    ['a list', '[]', /^must be JSON that maps capabilities/],
    ['an unknown capability', '{"face-paint":{}}', /"face-paint", which is no capability of jobs/],
    ['a live capability', '{"voice":{}}', /"voice", which is no capability of jobs/],
    ['an inherited name', '{"constructor":{}}', /"constructor"/],
    ['an unknown field', '{"avatar":{"sets":{}}}', /^avatar: .*sets/],
    [
      'a name of upper case',
      '{"avatar":{"set":{"Seed":1}}}',
      /^avatar\.set\.Seed: must be the name of an option/,
    ],
    ['a value that is a list', '{"avatar":{"set":{"seed":[1]}}}', /^avatar\.set\.seed: /],
    ['a name twice', '{"avatar":{"callers":["seed","seed"]}}', /^avatar\.callers: names an option twice/],
  ])('refuses %s', (_what, text, fault) => {
    expect(ownerOptionsSetting.safeParse(text).error?.issues[0]?.message).toMatch(fault);
  });
});

describe('the owner of an engine', () => {
  it('is told which option it has not, and which value is out of bounds', () => {
    const fault = (owner: Partial<typeof OWNER>) =>
      ownerFault('onnx', 'face-swap', { set: {}, callers: [], ...owner } as never, [LIKENESS]);
    expect(fault({ callers: ['seed'] })).toBe(
      'SEMBLANCE_ENGINE_OPTIONS, face-swap: the engine onnx has no option seed for this capability: it has likeness (a number from 0 to 1).',
    );
    expect(fault({ set: { likeness: '2' } })).toBe(
      'SEMBLANCE_ENGINE_OPTIONS, face-swap: likeness must be a number from 0 to 1.',
    );
    expect(fault({ set: { likeness: '1' }, callers: ['likeness'] })).toBeUndefined();
    expect(ownerFault('onnx', 'avatar', OWNER)).toMatch(/no option likeness .*: it has none\.$/);
  });

  it('lets callers give what it names, and their values go before its own', () => {
    const options = [LIKENESS, SEED];
    expect(announcedOptions(options, OWNER).map((one) => one.default)).toEqual(['0.4', undefined]);
    expect(openOptions(options, OWNER)).toEqual([SEED]);
    expect(openOptions(undefined, OWNER)).toEqual([]);
    expect(usedOptions(options, OWNER, { seed: '7' })).toEqual({
      texts: { likeness: '0.4', seed: '7' },
      values: { likeness: 0.4, seed: 7 },
    });
    expect(usedOptions(options, OWNER, { likeness: '1' }).values).toEqual({ likeness: 1 });
  });
});
