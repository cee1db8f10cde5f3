import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Capability } from '@semblance/engine-api/capabilities';
import { ADMIRAL, ASTRONAUT, PROFESSOR, useSwapRig } from '@semblance/testkit/engine-builtin/swap-rig';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';

const CAT = join(import.meta.dirname, '..', '..', 'media', 'cat.jpg');
const rig = useSwapRig();

const inspect = (
  capability: Capability,
  inputs: Readonly<Record<string, string>>,
  signal = new AbortController().signal,
) => rig.engine.inspect?.({ capability, inputs, parameters: {}, signal });

const small = () => sharp(ASTRONAUT).resize(200, 200).png().toBuffer();

describe('an inspection of Photo Swap', () => {
  it.each([
    ['a portrait', ASTRONAUT, ADMIRAL],
    ['a turned man behind a hand, and a smaller one', PROFESSOR, ASTRONAUT],
    ['the same as the source', ASTRONAUT, PROFESSOR],
  ])('finds what the render finds: %s', async (_what, image, face) => {
    const { findings } = await rig.swap(image, face);
    expect(await inspect('face-swap-image', { image, face })).toEqual(findings);
  });

  it('refuses as the render does, and tells of the faces that it left alone', async () => {
    const refused = { code: 'face_not_detected', message: expect.stringMatching(/base image/) };
    await expect(rig.swap(CAT, ASTRONAUT)).rejects.toMatchObject(refused);
    await expect(inspect('face-swap-image', { image: CAT, face: ASTRONAUT })).rejects.toMatchObject({
      ...refused,
      findings: { faces: { found: 1, changed: 0, left: [{ reason: 'not_a_person', count: 1 }] }, hints: [] },
    });
  });

  it('refuses a truncated picture as the render does', async () => {
    const whole = await readFile(ADMIRAL);
    const cut = await rig.file('cut.jpg', whole.subarray(0, whole.length / 2));
    const refused = { code: 'unsupported_format' };
    await expect(rig.swap(cut, ASTRONAUT)).rejects.toMatchObject(refused);
    await expect(inspect('face-swap-image', { image: cut, face: ASTRONAUT })).rejects.toMatchObject(refused);
    await expect(inspect('face-swap', { face: cut })).rejects.toMatchObject(refused);
  });

  it('ends when nobody waits any more, and the engine goes on', async () => {
    const image = await rig.file('large.png', sharp(ASTRONAUT).resize(5_000, 5_000).png().toBuffer());
    const gone = new AbortController();
    const looking = inspect('face-swap-image', { image, face: ADMIRAL }, gone.signal);
    gone.abort(new Error('gone'));
    await expect(looking).rejects.toThrow('gone');
    expect(await inspect('face-swap', { face: ASTRONAUT })).toEqual({ hints: [] });
  });
});

describe('an inspection of other capabilities', () => {
  it.each<[Capability, string]>([
    ['face-swap', 'face'],
    ['motion-control', 'image'],
    ['avatar', 'image'],
    ['character-swap', 'character'],
  ])('%s looks at its picture', async (capability, role) => {
    const path = await rig.file('small.png', small());
    expect(await inspect(capability, { [role]: path })).toMatchObject({
      hints: [{ code: 'face_small', input: role }],
    });
  });

  it.each<[Capability, string]>([
    ['motion-control', 'image'],
    ['avatar', 'image'],
  ])('%s refuses a cat with what it found', async (capability, role) => {
    await expect(inspect(capability, { [role]: CAT })).rejects.toMatchObject({
      code: 'face_not_detected',
      findings: { faces: { found: 1, changed: 0, left: [{ reason: 'not_a_person', count: 1 }] } },
    });
  });
});
