import { readdir } from 'node:fs/promises';
import { type ServiceError, status } from '@grpc/grpc-js';
import { RenderError } from '@semblance/engine-api/engine';
import { ChangeRefusedError, type LiveChange } from '@semblance/engine-api/live-engine';
import { type ChangeSessionRequest, EndReason } from '@semblance/proto/semblance/live/v1/live';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type HttpStore, startHttpStore } from '@semblance/testkit/gpu-agent/http-store';
import { startLiveRig } from '@semblance/testkit/live/live-rig';
import { createTestLiveEngine } from '@semblance/testkit/live/test-live-engine';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ContentCheckError } from '../content-check/check.ts';
import type { LiveOptions } from './live.ts';

const PICTURE = Buffer.from('a picture');
const PROMPT = 'use api/uploads/face-2';

let store: HttpStore;
const closers: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  store = await startHttpStore();
  store.objects.set('/face', Buffer.from('the bytes of a face'));
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});
afterAll(() => store.close());

/** Starts an agent with one session that is ready, and whose engine can be changed. */
async function ready(change: Partial<LiveOptions> = {}) {
  const { engine, state } = createTestLiveEngine();
  const asked: LiveChange[] = [];
  state.onChange = async (to) => {
    asked.push(to);
    return {};
  };
  const rig = await startLiveRig({ engines: [engine], ...change });
  closers.push(() => rig.close());
  const claim = () => rig.claim({ capability: 'full-live-swap', settings: { prompt: 'as it was' } });
  const id = await claim();
  const relay = rig.relay(id);
  const { changeable } = await relay.ready;
  const inputs = { face: { url: store.url('/face'), maxBytes: 0n } };
  const to = (prompt: string, named = false) =>
    rig.change(id, { settings: { prompt }, inputs: named ? inputs : {} });
  /** Checks that media flow as before. */
  const goesOn = async () => {
    relay.send(PICTURE);
    expect((await relay.next()).data.equals(PICTURE)).toBe(true);
  };
  return { rig, state, asked, id, relay, changeable, to, goesOn, claim };
}

/** Returns the code with which a call is refused. */
const codeOf = (calling: Promise<unknown>) =>
  calling.then(
    () => undefined,
    ({ code }: ServiceError) => code,
  );
const refusal = (code: string, message: unknown = expect.any(String)) => ({
  $case: 'refused',
  value: { code, message },
});
const changed = (note = '') => ({ $case: 'changed', value: { note } });

describe('a session in mid-session', () => {
  it('is changed by its engine, which gets all settings and a copy of the picture while it works', async () => {
    const { rig, asked, id, changeable, to, goesOn } = await ready();
    expect(changeable).toEqual(['prompt']);
    expect(await to(PROMPT, true)).toEqual(changed());
    expect(asked).toMatchObject([{ settings: { prompt: PROMPT }, inputs: { face: expect.any(String) } }]);
    await goesOn();
    expect(await to('another')).toEqual(changed());
    expect(asked[1]).toMatchObject({ settings: { prompt: 'another' }, inputs: {} });
    expect(rig.live.sessions.get(id)).toMatchObject({ state: 'streaming', received: 1, converted: 1 });
    // Nothing is left of the picture.
    const left = await readdir(rig.workDir.path, { recursive: true });
    expect(left.filter((path) => path.endsWith('face'))).toEqual([]);
  });

  it('is told what its engine says of the change', async () => {
    const { engine, state } = createTestLiveEngine();
    state.onChange = async () => ({ note: 'Gold, as there is no red.' });
    const rig = await startLiveRig({ engines: [engine] });
    closers.push(() => rig.close());
    const id = await rig.claim({ capability: 'full-live-swap' });
    await rig.relay(id).ready;
    expect(await rig.change(id)).toEqual(changed('Gold, as there is no red.'));
  });

  it('stays as it was when the engine refuses', async () => {
    const { engine, state } = createTestLiveEngine();
    state.onChange = async () => {
      throw new ChangeRefusedError('face_not_detected', 'No face was found.');
    };
    const rig = await startLiveRig({ engines: [engine] });
    closers.push(() => rig.close());
    const id = await rig.claim({ capability: 'full-live-swap' });
    const relay = rig.relay(id);
    await relay.ready;
    expect(await rig.change(id)).toEqual(refusal('face_not_detected', 'No face was found.'));
    relay.send(PICTURE);
    await relay.next();
  });

  it('cannot be changed where its engine cannot', async () => {
    const { engine } = createTestLiveEngine();
    const rig = await startLiveRig({ engines: [engine] });
    closers.push(() => rig.close());
    const id = await rig.claim({ capability: 'full-live-swap' });
    const relay = rig.relay(id);
    expect((await relay.ready).changeable).toEqual([]);
    expect(await rig.change(id)).toEqual(refusal('capability_unavailable'));
    relay.send(PICTURE);
    await relay.next();
  });

  it('keeps what it has when the picture cannot be fetched, or is too large', async () => {
    const { rig, asked, id, goesOn } = await ready();
    const face = { url: store.url('/none'), maxBytes: 0n };
    expect(await rig.change(id, { inputs: { face } })).toEqual(refusal('internal_error'));
    const large = { url: store.url('/face'), maxBytes: 3n };
    expect(await rig.change(id, { inputs: { face: large } })).toEqual(refusal('input_too_large'));
    expect(asked).toEqual([]);
    await goesOn();
  });

  it('is not changed before it is ready, by a malformed request, for another process, or after its end', async () => {
    const { rig, state, asked, id, relay, to, claim } = await ready();
    const held = Promise.withResolvers<void>();
    state.onOpen = () => held.promise;
    const other = await claim();
    expect(await codeOf(rig.change(other))).toBe(status.NOT_FOUND);
    held.resolve();
    expect(await codeOf(rig.change('ses-none'))).toBe(status.NOT_FOUND);
    expect(await codeOf(rig.change(id, { incarnation: 'another' }))).toBe(status.FAILED_PRECONDITION);
    const malformed: Partial<ChangeSessionRequest>[] = [
      { settings: { prompt: 'x'.repeat(200_000) } },
      { inputs: { face: { url: 'file:///etc/passwd', maxBytes: 0n } } },
      { inputs: { '../face': { url: store.url('/face'), maxBytes: 0n } } },
    ];
    for (const to of malformed) expect(await codeOf(rig.change(id, to))).toBe(status.INVALID_ARGUMENT);
    await relay.close();
    expect(await codeOf(to('late'))).toBe(status.NOT_FOUND);
    expect(asked).toEqual([]);
  });

  it('takes no other change while one is under way', async () => {
    const { engine, state } = createTestLiveEngine();
    const held = Promise.withResolvers<object>();
    let begun = 0;
    state.onChange = () => {
      begun++;
      return held.promise;
    };
    const rig = await startLiveRig({ engines: [engine] });
    closers.push(() => rig.close());
    const id = await rig.claim({ capability: 'full-live-swap' });
    const relay = rig.relay(id);
    await relay.ready;
    const first = rig.change(id);
    await until(() => begun === 1, 'begun');
    expect(await codeOf(rig.change(id))).toBe(status.RESOURCE_EXHAUSTED);
    // Media flow meanwhile.
    relay.send(PICTURE);
    await relay.next();
    held.resolve({});
    expect(await first).toEqual(changed());
    expect(await rig.change(id)).toEqual(changed());
    expect(begun).toBe(2);
  });

  it('ends when its engine fails, and a change under way with it', async () => {
    const { engine, state } = createTestLiveEngine();
    let fails = false;
    const held = Promise.withResolvers<object>();
    let begun = false;
    state.onChange = () => {
      begun = true;
      return fails ? Promise.reject(new Error('out of order')) : held.promise;
    };
    const rig = await startLiveRig({ engines: [engine] });
    closers.push(() => rig.close());
    const open = async () => {
      const id = await rig.claim({ capability: 'full-live-swap' });
      const relay = rig.relay(id);
      await relay.ready;
      return { id, relay };
    };
    const closed = await open();
    const under = codeOf(rig.change(closed.id));
    await until(() => begun, 'begun');
    await closed.relay.close();
    held.reject(new Error('closed'));
    expect(await under).toBe(status.NOT_FOUND);
    fails = true;
    const { id, relay } = await open();
    expect(await codeOf(rig.change(id))).toBe(status.NOT_FOUND);
    await relay.over;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
    await until(() => state.open === 0, 'the places are free');
  });
});

describe('a content check', () => {
  it('sees the new prompt and picture before the engine, and refuses them', async () => {
    let verdict: Error | undefined;
    const seen: unknown[] = [];
    const { asked, to, goesOn } = await ready({
      contentChecks: {
        async assertAllowed({ parameters, files, phase }) {
          seen.push({ phase, parameters, roles: files.map(({ role }) => role) });
          if (verdict) throw verdict;
        },
      },
    });
    verdict = new RenderError('content_rejected', 'Not this.');
    expect(await to(PROMPT, true)).toEqual(refusal('content_rejected', 'Not this.'));
    verdict = new ContentCheckError('the check is away');
    expect(await to(PROMPT, true)).toEqual(
      refusal('internal_error', 'A content check did not work. Try again.'),
    );
    expect(asked).toEqual([]);
    await goesOn();
    verdict = undefined;
    expect(await to(PROMPT, true)).toEqual(changed());
    expect(seen.at(-1)).toEqual({ phase: 'input', parameters: { prompt: PROMPT }, roles: ['face'] });
    expect(asked).toHaveLength(1);
  });
});
