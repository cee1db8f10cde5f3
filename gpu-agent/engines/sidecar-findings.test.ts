import { GOOD_INFO } from '@semblance/testkit/engine-sidecar/scripted-sidecar';
import { useSidecarRig } from '@semblance/testkit/engine-sidecar/sidecar-rig';
import { describe, expect, it, vi } from 'vitest';

const { sidecar, warmEngine, work, leftovers } = useSidecarRig();

const findings = {
  faces: { found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] },
  hints: [
    { code: 'face_small', message: 'The face is small.', input: 'face' },
    { code: 'of_its_own', message: 'It is blue.' },
  ],
  models: [{ name: 'their-model', sha256: 'ab'.repeat(32), licence: 'MIT' }],
};

describe('a sidecar', () => {
  it('that knows of no findings gives none, and is asked for none', async () => {
    const { state } = await sidecar();
    const engine = await warmEngine();
    expect(engine.inspect).toBeUndefined();
    expect(await engine.render(await work('ok'))).not.toHaveProperty('findings');
    await expect(engine.render(await work('refuse'))).rejects.toMatchObject({ findings: undefined });
    expect(state.inspected).toEqual([]);
  });

  it('gives findings with a result and with a refusal', async () => {
    await sidecar();
    const engine = await warmEngine();
    expect(await engine.render(await work('findings'))).toMatchObject({ findings });
    await expect(engine.render(await work('refuse-with-findings'))).rejects.toMatchObject({
      code: 'face_not_detected',
      findings,
    });
  });

  describe('that looks at pictures', () => {
    const info = { ...GOOD_INFO, inspects: true };

    it('tells what it finds, or why it would refuse, and leaves no copies', async () => {
      const { state } = await sidecar({ info });
      const engine = await warmEngine();
      expect(await engine.inspect?.(await work('ok'))).toEqual(findings);
      expect(state.inspected).toEqual(['face', 'image']);
      await expect(engine.inspect?.(await work('refuse'))).rejects.toMatchObject({
        name: 'RenderError',
        code: 'face_not_detected',
        findings,
      });
      await expect(engine.inspect?.(await work('unavailable'))).rejects.toMatchObject({
        name: 'EngineInterruptedError',
      });
      expect(await leftovers()).toEqual([]);
    });

    it('stops when nobody waits any more', async () => {
      const { running } = await sidecar({ info });
      const engine = await warmEngine();
      const gone = new AbortController();
      const looking = engine.inspect?.(await work('slow', gone.signal));
      await vi.waitFor(() => expect(running.size).toBe(1), 10_000);
      gone.abort(new Error('gone'));
      await expect(looking).rejects.toThrow('gone');
      expect([running.size, await leftovers()]).toEqual([0, []]);
    });

    it('and answers nothing breaks the contract', async () => {
      await sidecar({ info });
      const engine = await warmEngine();
      await expect(engine.inspect?.(await work('empty-message'))).rejects.toMatchObject({
        code: 'contract_broken',
      });
    });
  });

  it.each([
    ['bad-counts', /found 3 faces, but changed 1 and left 0 alone/],
    ['bad-number', /below 0/],
    ['bad-reason', /"Far Away"/],
    ['bad-code', /"a-b"/],
    ['bad-message', /1 to 300 characters/],
    ['bad-input', /"video", which is no input of face-swap-image/],
    ['too-many-hints', /at most 8 hints/],
    ['bad-hash', /the sha256 of "m" is not 64/],
    ['bad-licence', /the licence of "m"/],
    ['too-many-models', /at most 16 models/],
  ])('that gives findings with %s breaks the contract', async (mode, message) => {
    await sidecar({ info: { ...GOOD_INFO, inspects: true } });
    const engine = await warmEngine();
    const broken = { code: 'contract_broken', message: expect.stringMatching(message) };
    await expect(engine.render(await work(mode))).rejects.toMatchObject(broken);
    await expect(engine.inspect?.(await work(mode))).rejects.toMatchObject(broken);
  });
});
