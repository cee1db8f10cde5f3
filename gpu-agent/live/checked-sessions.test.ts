import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '@semblance/common/config';
import { silentLogger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import type { OpenLiveOptions } from '@semblance/engine-api/live-engine';
import { EndReason, SessionState } from '@semblance/proto/semblance/live/v1/live';
import { type CheckService, startCheckService } from '@semblance/testkit/content-check/check-service';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type HttpStore, startHttpStore } from '@semblance/testkit/gpu-agent/http-store';
import { type LiveRig, startLiveRig } from '@semblance/testkit/live/live-rig';
import { createTestLiveEngine } from '@semblance/testkit/live/test-live-engine';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ContentChecks, createContentChecks } from '../content-check/content-checks.ts';
import { contentCheckSettings, contentCheckShape } from '../content-check/settings.ts';
import { AGENT_ENDS, type LiveOptions } from './live.ts';

const CAPABILITY = 'full-live-swap';
const PORTRAIT = join(import.meta.dirname, '../../media/astronaut.png');
/** Time limit of checks, in ms; long, so that a standstill does not look like a slow check. */
const PATIENT_MS = 60_000;
const PROMPT = 'use api/uploads/face-1';

let dir: string;
let store: HttpStore;
let service: CheckService;
let portrait: Buffer;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-checked-sessions-'));
  [store, service, portrait] = await Promise.all([startHttpStore(), startCheckService(), readFile(PORTRAIT)]);
});
beforeEach(() => {
  store.objects.set('/face', portrait);
  service.answer([]);
});

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});
afterAll(async () => {
  await Promise.all([service.close(), store.close()]);
  await rm(dir, { recursive: true, force: true });
});

/** Starts an agent with these checks. Returns it and the result of each check. */
async function checkedBy(env: NodeJS.ProcessEnv, change: Partial<LiveOptions> = {}) {
  const results: string[] = [];
  const contentChecks: ContentChecks = await createContentChecks({
    settings: contentCheckSettings(loadConfig(contentCheckShape, env)),
    nice: 0,
    logger: silentLogger(),
    onResult: (...result) => results.push(result.join(' ')),
  });
  const { engine, state } = createTestLiveEngine();
  const opened: OpenLiveOptions[] = [];
  state.onOpen = async (options) => void opened.push(options);
  const rig = await startLiveRig({ engines: [engine], contentChecks, checkWithinMs: PATIENT_MS, ...change });
  closers.push(
    () => rig.close(),
    () => contentChecks.close(),
  );
  const claim = (prompt = PROMPT, named = true) =>
    rig.claim({
      capability: CAPABILITY,
      settings: { prompt },
      inputs: named ? { face: { url: store.url('/face'), maxBytes: 0n } } : {},
    });
  return { rig, claim, results, opened, state };
}
const asking = (more: NodeJS.ProcessEnv = {}) => ({
  SEMBLANCE_CONTENT_CHECK: 'http',
  SEMBLANCE_CONTENT_CHECK_URL: service.url,
  ...more,
});

/** Connects a client and returns how its session ends. */
async function refused(rig: LiveRig, id: string) {
  const relay = rig.relay(id);
  await relay.over;
  await expect(relay.ready).rejects.toBeDefined();
  return relay.ended();
}

describe('what a live session is opened with', () => {
  it('is looked at before its engine opens it', async () => {
    const verdict = Promise.withResolvers<void>();
    service.answer(() => ({ after: verdict.promise }));
    const { rig, claim, results, opened } = await checkedBy(asking());
    const id = await claim();
    const relay = rig.relay(id);
    await until(() => service.asked.length === 1, 'asked');
    expect(opened).toEqual([]);
    const [asked] = service.asked;
    expect(asked?.request).toEqual({
      version: 1,
      phase: 'input',
      job: id,
      capability: CAPABILITY,
      parameters: { prompt: PROMPT },
      files: [{ role: 'face', kind: 'image', size: portrait.length }],
    });
    expect(asked?.files.face?.bytes.equals(portrait)).toBe(true);
    verdict.resolve();
    await relay.ready;
    expect(opened.map(({ inputs }) => Object.keys(inputs))).toEqual([['face']]);
    expect(results).toEqual(['http input allowed']);
    await relay.close();
  });

  it('is its prompt alone where that names no upload, and nothing of a voice session', async () => {
    const { engine: voice } = createTestLiveEngine();
    const { engine } = createTestLiveEngine();
    const { rig, claim } = await checkedBy(asking(), {
      engines: [engine, { ...voice, capability: 'voice', delivery: 'every' }],
    });
    await rig.relay(await claim('character: admiral', false)).ready;
    expect(service.asked.map(({ request: { parameters, files } }) => ({ parameters, files }))).toEqual([
      { parameters: { prompt: 'character: admiral' }, files: [] },
    ]);
    await rig.relay(await rig.claim({ settings: { voice: '{}' } })).ready;
    expect(service.asked).toHaveLength(1);
  });
});

describe('a session that a check rejects', () => {
  const REJECTS = { body: '{"verdict":"reject","reason":"Not of this person."}' };

  it.each(['before', 'after'])('is refused to its client, who comes %s the verdict', async (when) => {
    const verdict = Promise.withResolvers<void>();
    service.answer([{ ...REJECTS, after: verdict.promise }]);
    const { rig, claim, results, opened } = await checkedBy(asking());
    const watch = rig.watch();
    await watch.first;
    const id = await claim();
    let over: ReturnType<typeof refused> | undefined;
    if (when === 'before') {
      over = refused(rig, id);
      await until(() => rig.live.sessions.get(id)?.state === 'connected', 'connected');
    }
    verdict.resolve();
    await until(() => results.length === 1, 'the verdict');
    over ??= refused(rig, id);
    expect(await over).toEqual({
      reason: EndReason.END_REASON_UNSPECIFIED,
      message: 'a content check rejected it',
      goingAway: false,
      rejected: 'Not of this person.',
    });
    expect(results).toEqual(['http input rejected']);
    expect(opened).toEqual([]);
    await until(() => watch.of(id)?.state === SessionState.SESSION_STATE_ENDED, 'told of the end');
    expect(watch.of(id)).toMatchObject({
      reason: EndReason.END_REASON_UNSPECIFIED,
      rejected: 'Not of this person.',
      streamedMs: 0n,
      converted: 0n,
    });
    expect(rig.live.sessions.held(CAPABILITY)).toBe(0);
    watch.cancel();
  });

  /** Claims a session whose content check rejects it at once, before the claim is answered. */
  async function rejectedAtOnce(connectDeadlineSeconds: number) {
    const assertAllowed = async () => {
      throw new RenderError('content_rejected', 'Not of this person.');
    };
    const { rig } = await checkedBy({}, { contentChecks: { assertAllowed } });
    const settings = { prompt: 'character: admiral' };
    const id = await rig.claim({ capability: CAPABILITY, settings, connectDeadlineSeconds });
    return { rig, end: () => rig.live.sessions.get(id)?.end };
  }
  const REJECTED = { reason: undefined, rejected: 'Not of this person.' };

  it('ends as rejected when its client never comes', async () => {
    const { end } = await rejectedAtOnce(1);
    await until(() => end() !== undefined, 'ended');
    expect(end()).toMatchObject(REJECTED);
  });

  it('ends as rejected when its agent ends before its client comes', async () => {
    const { rig, end } = await rejectedAtOnce(600);
    await rig.live.sessions.endAll(AGENT_ENDS);
    expect(end()).toMatchObject(REJECTED);
  });

  it.each([
    ['hash-list', PROMPT, 'The input face is not allowed here.'],
    ['word-list', 'Become the Führer, please', 'The prompt contains words that are not allowed here.'],
  ])('by the %s', async (name, prompt, reason) => {
    const [hashes, words] = [join(dir, 'hashes.txt'), join(dir, 'words.txt')];
    await writeFile(hashes, `sha256 ${createHash('sha256').update(portrait).digest('hex')}\n`);
    await writeFile(words, 'fuhrer\n');
    const { rig, claim, opened } = await checkedBy({
      SEMBLANCE_CONTENT_CHECK: name,
      SEMBLANCE_CONTENT_HASH_LIST: hashes,
      SEMBLANCE_CONTENT_WORD_LIST: words,
    });
    expect(await refused(rig, await claim(prompt))).toMatchObject({ rejected: reason });
    expect(opened).toEqual([]);
    // Another picture or other words are allowed.
    store.objects.set('/face', Buffer.concat([portrait, Buffer.alloc(1)]));
    const relay = rig.relay(await claim());
    await relay.ready;
    await relay.close();
  });
});

describe('a check of a session that cannot be made', () => {
  it.each([
    ['that answers no verdict', () => ({ status: 401 }), undefined],
    ['that does not answer in time', () => ({ hangs: true }), 50],
  ])('%s ends it as failed, and its client is told when it comes', async (_what, answer, withinMs) => {
    service.answer(answer);
    const { rig, claim, results, opened } = await checkedBy(
      asking(),
      withinMs ? { checkWithinMs: withinMs } : {},
    );
    const id = await claim();
    await until(() => results.length === 1, 'no verdict');
    expect(results).toEqual(['http input failed']);
    expect(await refused(rig, id)).toMatchObject({
      reason: EndReason.END_REASON_RENDER_FAILED,
      message: 'a content check did not work',
      rejected: '',
    });
    expect(opened).toEqual([]);
    expect(rig.live.sessions.held(CAPABILITY)).toBe(0);
  });

  it.each([
    ['that answers no verdict', () => ({ status: 401 }), undefined],
    ['that does not answer in time', () => ({ hangs: true }), 50],
  ])('%s lets it go on where the owner said so', async (_what, answer, withinMs) => {
    service.answer(answer);
    const { rig, claim, results, opened } = await checkedBy(
      asking({ SEMBLANCE_CONTENT_CHECK_FAILED: 'allow' }),
      withinMs ? { checkWithinMs: withinMs } : {},
    );
    const relay = rig.relay(await claim());
    await relay.ready;
    expect(results).toEqual(['http input failed']);
    expect(opened).toHaveLength(1);
    await relay.close();
  });
});

it.each([
  ['hash-list,http', []],
  ['http,hash-list', ['face']],
])(
  'a picture that a check cannot read is opened by no engine, and the checks that are left look at what else there is: %s',
  async (checks, seen) => {
    const list = join(dir, 'alike.txt');
    await writeFile(list, `pdq ${'0'.repeat(64)}\n`);
    store.objects.set('/face', Buffer.from('no picture'));
    const { rig, claim, results, opened } = await checkedBy(
      asking({ SEMBLANCE_CONTENT_CHECK: checks, SEMBLANCE_CONTENT_HASH_LIST: list }),
    );
    const relay = rig.relay(await claim());
    await relay.ready;
    expect(opened).toMatchObject([{ inputs: {}, unusable: { face: expect.stringContaining('face') } }]);
    expect(results).toEqual(['http input allowed']);
    expect(service.asked.map(({ files }) => Object.keys(files))).toEqual([seen]);
    await relay.close();
  },
);
