import { loadConfig } from '@semblance/common/config';
import { silentLogger } from '@semblance/common/logging';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { type CheckService, startCheckService } from '@semblance/testkit/content-check/check-service';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { startLiveRig } from '@semblance/testkit/live/live-rig';
import { createTestLiveEngine } from '@semblance/testkit/live/test-live-engine';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createContentChecks } from '../content-check/content-checks.ts';
import { contentCheckSettings, contentCheckShape } from '../content-check/settings.ts';

const CAPABILITY = 'full-live-swap';
/** Longer than any test: only the first picture of a session is due. */
const ONCE_MS = 3_600_000;
const REJECT = { body: '{"verdict":"reject","reason":"Not here."}' };

let service: CheckService;
beforeAll(async () => {
  service = await startCheckService();
});
beforeEach(() => service.answer([]));
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});
afterAll(async () => {
  await service.close();
});

/** Starts an agent whose checks ask the service, and opens a session. */
async function session(samplePicturesMs: number, env: NodeJS.ProcessEnv = {}) {
  const check = { SEMBLANCE_CONTENT_CHECK: 'http', SEMBLANCE_CONTENT_CHECK_URL: service.url, ...env };
  const results: string[] = [];
  const contentChecks = await createContentChecks({
    settings: contentCheckSettings(loadConfig(contentCheckShape, check)),
    nice: 0,
    logger: silentLogger(),
    onResult: (...result) => results.push(result.join(' ')),
  });
  const { engine } = createTestLiveEngine();
  const rig = await startLiveRig({ engines: [engine], contentChecks, samplePicturesMs });
  closers.push(
    () => rig.close(),
    () => contentChecks.close(),
  );
  const id = await rig.claim({ capability: CAPABILITY, settings: {} });
  const relay = rig.relay(id);
  await relay.ready;
  const picture = async (content: string) => {
    relay.send(Buffer.from(content));
    return Buffer.from((await relay.next()).data).toString();
  };
  return { id, relay, picture, results };
}

describe('the pictures of a live session', () => {
  it('are checked from time to time, and flow meanwhile', async () => {
    const verdict = Promise.withResolvers<void>();
    service.answer(() => ({ after: verdict.promise }));
    const { id, relay, picture, results } = await session(1);
    expect(await picture('one')).toBe('one');
    await until(() => service.asked.length === 1, 'asked');
    expect(service.asked[0]).toMatchObject({
      request: {
        phase: 'input',
        job: id,
        capability: CAPABILITY,
        files: [{ role: 'picture', kind: 'image', size: 3 }],
      },
    });
    // No second one is taken before the first is decided.
    for (const content of ['two', 'three']) expect(await picture(content)).toBe(content);
    expect(service.asked).toHaveLength(1);
    verdict.resolve();
    await until(() => results.length === 1, 'decided');
    await picture('four');
    await until(() => service.asked.length === 2, 'asked again');
    expect(service.asked[1]?.files.picture?.bytes.toString()).toBe('four');
    await relay.close();
  });

  it('are checked no more often than asked for', async () => {
    const { relay, picture, results } = await session(ONCE_MS);
    await picture('one');
    await until(() => results.length === 1, 'decided');
    for (const content of ['two', 'three']) await picture(content);
    expect(service.asked).toHaveLength(1);
    await relay.close();
  });

  it('end their session when one is rejected', async () => {
    service.answer([REJECT]);
    const { relay } = await session(ONCE_MS);
    relay.send(Buffer.from('bad'));
    await relay.over;
    expect(relay.ended()).toMatchObject({
      reason: EndReason.END_REASON_CANCELLED,
      message: 'a picture of this session is not allowed here',
    });
  });

  it('end their session when several in a row cannot be checked', async () => {
    service.answer(() => ({ status: 400 }));
    const { relay, results } = await session(1);
    const sending = setInterval(() => relay.send(Buffer.from('a picture')), 20);
    await relay.over;
    clearInterval(sending);
    expect(results).toEqual(Array(3).fill('http input failed'));
    expect(relay.ended()).toMatchObject({
      reason: EndReason.END_REASON_RENDER_FAILED,
      message: 'a content check did not work',
    });
  });

  it('go on where what cannot be checked is let through, and where none is to be checked', async () => {
    service.answer(() => ({ status: 400 }));
    const lenient = await session(1, { SEMBLANCE_CONTENT_CHECK_FAILED: 'allow' });
    for (let count = 1; count <= 5; count++) {
      expect(await lenient.picture('a picture')).toBe('a picture');
      await until(() => lenient.results.length >= count, 'decided');
    }
    await lenient.relay.close();
    service.answer([]);
    const unchecked = await session(0);
    expect(await unchecked.picture('a picture')).toBe('a picture');
    await unchecked.relay.close();
    expect(service.asked).toEqual([]);
  });
});
