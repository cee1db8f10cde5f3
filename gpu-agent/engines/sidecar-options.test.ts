import type { EngineOption } from '@semblance/proto/semblance/engine/v1/engine';
import { GOOD_INFO } from '@semblance/testkit/engine-sidecar/scripted-sidecar';
import { useSidecarRig } from '@semblance/testkit/engine-sidecar/sidecar-rig';
import { describe, expect, it } from 'vitest';

const { sidecar, warmEngine, work } = useSidecarRig();
const [OFFER] = GOOD_INFO.capabilities as [(typeof GOOD_INFO.capabilities)[number]];

describe('a sidecar', () => {
  const STEPS: EngineOption = {
    ...{ name: 'steps', type: 'integer', minimum: 1, maximum: 50, choices: [], maxLength: 0, default: '20' },
    description: 'Steps of the sampler.',
  };
  const withOptions = (...options: EngineOption[]) => ({
    info: { ...GOOD_INFO, capabilities: [{ ...OFFER, options }] },
  });

  it('announces options, and gets those of a render as text', async () => {
    const note = { ...STEPS, name: 'note', type: 'text', minimum: undefined, maximum: undefined };
    const { state } = await sidecar(withOptions(STEPS, { ...note, default: undefined, maxLength: 9 }));
    const engine = await warmEngine();
    const description = 'Steps of the sampler.';
    expect(engine.capabilities[0]?.options).toEqual([
      { name: 'steps', type: 'integer', minimum: 1, maximum: 50, default: '20', description },
      { name: 'note', type: 'text', maxLength: 9, description },
    ]);
    await engine.render({ ...(await work('ok')), options: { steps: 3, note: 'a', sharp: true, part: 0.5 } });
    await engine.render(await work('ok'));
    expect(state.options).toEqual([{ steps: '3', note: 'a', sharp: 'true', part: '0.5' }, {}]);
  });

  it.each<[string, EngineOption[], string]>([
    ['a name that none has', [{ ...STEPS, name: 'a b' }], 'the name of an option is "a b"'],
    ['an unknown type', [{ ...STEPS, type: 'colour' }], 'the type of the option steps is none of'],
    ['a default out of bounds', [{ ...STEPS, default: '51' }], 'the default of the option steps must be'],
    ['an option twice', [STEPS, STEPS], 'the option steps is there twice'],
  ])('that announces %s is refused', async (_what, options, message) => {
    await sidecar(withOptions(...options));
    await expect(warmEngine()).rejects.toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining(`face-swap-image: ${message}`),
    });
  });
});
