import type { EngineSpeech } from '@semblance/proto/semblance/engine/v1/engine';
import { GOOD_INFO } from '@semblance/testkit/engine-sidecar/scripted-sidecar';
import { useSidecarRig } from '@semblance/testkit/engine-sidecar/sidecar-rig';
import { describe, expect, it } from 'vitest';

const { sidecar, warmEngine } = useSidecarRig();
const [OFFER] = GOOD_INFO.capabilities as [(typeof GOOD_INFO.capabilities)[number]];

describe('a sidecar', () => {
  const SPEECH: EngineSpeech = {
    voices: [
      { id: 'amy', language: 'en-gb', gender: 'female', variants: 'amy' },
      { id: 'old', language: 'de', gender: '', variants: '' },
    ],
    variants: [{ name: 'amy', endings: ['/1'] }],
    languages: ['en', 'en-gb', 'de'],
  };
  const withSpeech = (speech: EngineSpeech, capability = 'avatar') => ({
    info: { ...GOOD_INFO, capabilities: [{ ...OFFER, capability, speech }] },
  });

  it('announces the voices of Avatar', async () => {
    await sidecar(withSpeech(SPEECH));
    const engine = await warmEngine();
    expect(engine.capabilities[0]?.speech).toEqual({
      voices: [
        { id: 'amy', language: 'en-gb', gender: 'female', variants: 'amy' },
        { id: 'old', language: 'de' },
      ],
      variants: [{ name: 'amy', endings: ['/1'] }],
      languages: ['en', 'en-gb', 'de'],
    });
  });

  it('that announces none has any', async () => {
    await sidecar({ info: { ...GOOD_INFO, capabilities: [{ ...OFFER, capability: 'avatar' }] } });
    expect((await warmEngine()).capabilities[0]).not.toHaveProperty('speech');
  });

  it.each<[string, EngineSpeech, string | undefined, string]>([
    ['no voice', { ...SPEECH, voices: [] }, undefined, 'avatar: there are 1 to 2048 voices'],
    [
      'a gender that there is not',
      { ...SPEECH, voices: [{ id: 'a', language: 'de', gender: 'alto', variants: '' }] },
      undefined,
      'avatar: the voice "a" has',
    ],
    ['voices for work that speaks nothing', SPEECH, 'lip-sync', 'it announces voices for lip-sync'],
  ])('that announces %s is refused', async (_what, speech, capability, message) => {
    await sidecar(withSpeech(speech, capability));
    await expect(warmEngine()).rejects.toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining(message),
    });
  });
});
