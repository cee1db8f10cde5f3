import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AttemptState, StartAttemptRequest } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness, type TestAgent } from '@semblance/testkit/gpu-agent/harness';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { engineSource } from './engines/registry.ts';

const media = join(import.meta.dirname, '../media');
let harness: Harness;
let agent: TestAgent;
let output: Buffer | undefined;

beforeAll(async () => {
  harness = await createHarness();
  for (const entry of await readdir(media, { withFileTypes: true })) {
    if (entry.isFile())
      harness.store.objects.set(`/in/${entry.name}`, await readFile(join(media, entry.name)));
  }
  harness.store.objects.set('/in/blank.png', await blank());
  harness.store.objects.set('/in/text.png', Buffer.from('this is no picture'));
  agent = await harness.agent({
    engines: [engineSource('builtin')],
    env: { SEMBLANCE_AGENT_SLOTS: '1' },
  });
});
afterAll(() => harness.close());

const blank = () =>
  sharp({ create: { width: 320, height: 240, channels: 3, background: '#789' } })
    .png()
    .toBuffer();

async function swap(image: string, face: string) {
  const input = (name: string) => ({ url: harness.store.url(`/in/${name}`) });
  const base = agent.request('');
  harness.store.on(`/out/${base.ref?.jobUid}`, async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    output = Buffer.concat(chunks);
    response.writeHead(200).end();
  });
  const sinks = ['image/png', 'image/jpeg', 'image/webp'].map((contentType) => ({
    contentType,
    url: harness.store.url(`/out/${base.ref?.jobUid}`),
    key: `out/${contentType}`,
  }));
  const request = StartAttemptRequest.fromPartial({
    ...base,
    parameters: {},
    inputs: { image: input(image), face: input(face) },
    sinks,
  });
  const watch = agent.watch();
  output = undefined;
  await agent.start(request);
  const ended = await watch.ended(request.ref, 100_000);
  watch.cancel();
  expect(await agent.leftovers()).toEqual([]);
  return ended;
}

it('swaps a face between two photographs, from link to link', async () => {
  const ended = await swap('astronaut.png', 'grace_hopper.jpg');
  expect(ended).toMatchObject({
    state: AttemptState.ATTEMPT_STATE_SUCCEEDED,
    output: {
      unit: 'image',
      milliUnits: 1000n,
      engine: expect.stringMatching(/^builtin /),
      findings: {
        faces: { found: 1, changed: 1, left: [] },
        hints: [{ code: 'glasses', message: expect.stringContaining('wears glasses'), input: 'face' }],
      },
    },
  });
  const picture = output as Buffer;
  expect(ended.output?.sha256Hex).toBe(createHash('sha256').update(picture).digest('hex'));
  const before = sharp(join(media, 'astronaut.png')).removeAlpha().raw();
  const [a, b] = await Promise.all(
    [before, sharp(picture).removeAlpha().raw()].map((each) => each.toBuffer({ resolveWithObject: true })),
  );
  expect([b?.info.width, b?.info.height]).toEqual([a?.info.width, a?.info.height]);
  let changed = 0;
  for (let at = 0; at < (a?.data.length ?? 0); at++) if (a?.data[at] !== b?.data[at]) changed++;
  // The face has changed, but not the whole picture.
  expect(changed / (a?.data.length ?? 1)).toBeGreaterThan(0.01);
  expect(changed / (a?.data.length ?? 1)).toBeLessThan(0.3);
});

it.each([
  ['blank.png', 'grace_hopper.jpg', 'face_not_detected', ['glasses']],
  ['astronaut.png', 'blank.png', 'face_not_detected', []],
  ['text.png', 'grace_hopper.jpg', 'unsupported_format', undefined],
])('says why %s with the face of %s cannot be made, and what it found', async (image, face, code, hints) => {
  const ended = await swap(image, face);
  expect(ended).toMatchObject({ state: AttemptState.ATTEMPT_STATE_FAILED, failure: { code } });
  expect(ended.failure?.findings?.hints.map((hint) => hint.code)).toEqual(hints);
  expect(output).toBeUndefined();
});
