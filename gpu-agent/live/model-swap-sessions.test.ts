import { join } from 'node:path';
import type { OptionalLiveStage } from '@semblance/engine-onnx/live/live-models';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  failingArcface,
  tinyArcface,
  tinyEnhancer,
  tinyPictureSwapper,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type HttpStore, startHttpStore } from '@semblance/testkit/gpu-agent/http-store';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';
import sharp from 'sharp';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

const CAPABILITY = 'full-live-swap';
const MEDIA = join(import.meta.dirname, '../../media');
const FACE_UPLOAD = 'use api/uploads/face-1';
const ARCFACE = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
/** Draws blue, whatever the face and the identity are. */
const BLUE = {
  contract: 'hyperswap_1a_256',
  bytes: tinySwapper({ size: 256, range: [0, 0], tint: [0, 0, 1] }),
  options: { match: 0 },
};
/** Makes whatever it gets white. */
const WHITE = { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0, 1), options: { blend: 1 } };

const models = new ModelDirRig();
let store: HttpStore;
let picture: Buffer;
beforeAll(async () => {
  store = await startHttpStore();
  store.objects.set('/face', await sharp(join(MEDIA, 'astronaut.png')).png().toBuffer());
  store.objects.set(
    '/sky',
    await sharp(await blank())
      .png()
      .toBuffer(),
  );
  picture = await sharp(join(MEDIA, 'grace_hopper.jpg'))
    .resize(640, 480, { fit: 'contain', background: '#808080' })
    .jpeg()
    .toBuffer();
});
const rigs: LiveRig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});
afterAll(async () => {
  await store.close();
  await models.close();
});

function blank(): Promise<Buffer> {
  return sharp({ create: { width: 300, height: 300, channels: 3, background: '#8090a0' } })
    .png()
    .toBuffer();
}

async function agentWith(given: readonly GivenModel[], videoStages: readonly OptionalLiveStage[] = []) {
  const onnx = { modelDir: await models.make(given), providers: 'cpu', devices: '0' };
  const settings = { ...SETTINGS, voiceSlots: 0, videoSlots: 1, videoStages };
  const rig = await startLiveRig({ settings, onnx });
  rigs.push(rig);
  await rig.warm();
  return rig;
}

async function session(rig: LiveRig, upload?: '/face' | '/sky' | '/red') {
  const id = await rig.claim({
    capability: CAPABILITY,
    settings: upload ? { prompt: FACE_UPLOAD } : {},
    inputs: upload ? { face: { url: store.url(upload), maxBytes: 0n } } : {},
  });
  const relay = rig.relay(id);
  const { firstFrame } = await relay.ready;
  return { id, relay, first: JSON.parse(firstFrame) as { note?: string } };
}

/** A place on the nose, in pixels of the picture. */
const NOSE = { x: 325, y: 200 };

/** Returns the mean colour of the nose's surroundings and of a corner. */
async function coloursOf(jpeg: Uint8Array): Promise<{ face: number[]; corner: number[] }> {
  const mean = async (left: number, top: number) => {
    // The statistics of sharp are those of its input, whatever is asked for between.
    const part = await sharp(jpeg).extract({ left, top, width: 12, height: 12 }).png().toBuffer();
    return (await sharp(part).stats()).channels.map((channel) => channel.mean);
  };
  return { face: await mean(NOSE.x - 6, NOSE.y - 6), corner: await mean(4, 4) };
}

/** Returns the largest difference of two colours in one channel. */
function distance(one: readonly number[], other: readonly number[]): number {
  return Math.max(...one.map((value, channel) => Math.abs(value - (other[channel] ?? 0))));
}

async function send(relay: Awaited<ReturnType<typeof session>>['relay']) {
  relay.send(picture);
  return coloursOf((await relay.next()).data);
}

describe('live swaps with a swapper of the owner', () => {
  it('are drawn by it in each picture, for characters and uploads, and by nothing else', async () => {
    const rig = await agentWith([ARCFACE, BLUE]);
    const before = await coloursOf(picture);
    for (const upload of [undefined, '/face'] as const) {
      const { relay, first } = await session(rig, upload);
      expect(first.note).toBeUndefined();
      for (let i = 0; i < 3; i++) {
        const { face, corner } = await send(relay);
        expect(face[2]).toBeGreaterThan(200);
        expect(Math.max(face[0] ?? 255, face[1] ?? 255)).toBeLessThan(170);
        for (const [channel, value] of corner.entries())
          expect(value).toBeCloseTo(before.corner[channel] ?? -1, -1);
      }
      await relay.close();
    }
  });

  it('keep the own face, and say why, where the upload shows none', async () => {
    const rig = await agentWith([ARCFACE, BLUE]);
    const { relay, first } = await session(rig, '/sky');
    expect(first.note).toBe('Your own face is kept: No face was found in the picture of the face.');
    expect((await send(relay)).face).toEqual((await coloursOf(picture)).face);
    await relay.close();
  });

  it('have the identity of another face from a change on, and keep it when there is none', async () => {
    // It draws the mean colour of the source.
    const coloured = { contract: 'blendswap_256', bytes: tinyPictureSwapper(112), options: { match: 0 } };
    const rig = await agentWith([ARCFACE, coloured]);
    const other = await session(rig, '/face');
    const wanted = await send(other.relay);
    await other.relay.close();
    store.objects.set('/red', await sharp(join(MEDIA, 'astronaut.png')).tint('#ff3010').png().toBuffer());
    const red = await session(rig, '/red');
    const first = await send(red.relay);
    expect(distance(first.face, wanted.face)).toBeGreaterThan(8);
    const to = (upload: string) =>
      rig.change(red.id, {
        settings: { prompt: FACE_UPLOAD },
        inputs: { face: { url: store.url(upload), maxBytes: 0n } },
      });
    expect(await to('/sky')).toMatchObject({ $case: 'refused', value: { code: 'face_not_detected' } });
    expect(distance((await send(red.relay)).face, first.face)).toBeLessThan(2);
    expect(await to('/face')).toMatchObject({ $case: 'changed' });
    expect(distance((await send(red.relay)).face, wanted.face)).toBeLessThan(2);
    await red.relay.close();
  });

  it('use an enhancer only where the settings name it', async () => {
    const without = await agentWith([ARCFACE, BLUE, WHITE]);
    const blue = await session(without);
    expect((await send(blue.relay)).face[0]).toBeLessThan(170);
    await blue.relay.close();
    const rig = await agentWith([ARCFACE, BLUE, WHITE], ['enhancer']);
    const white = await session(rig);
    expect((await send(white.relay)).face[0]).toBeGreaterThan(220);
    await white.relay.close();
  });

  it('are those of builtin where there is no swapper, or the models have a fault', async () => {
    for (const given of [[ARCFACE], [ARCFACE, { ...BLUE, sha256: 'ab'.repeat(32) }]]) {
      const rig = await agentWith(given);
      const { relay } = await session(rig);
      const { face } = await send(relay);
      expect(face[0]).toBeGreaterThan(face[2] ?? 255);
      expect(face).not.toEqual((await coloursOf(picture)).face);
      await relay.close();
    }
  });

  it('are loaded again after the device was full, and serve the next session', async () => {
    const full = failingArcface('grey', 'CUDA failure 2: out of memory');
    const rig = await agentWith([{ ...ARCFACE, bytes: full }, BLUE]);
    const grey = sharp(join(MEDIA, 'astronaut.png')).removeAlpha().grayscale();
    store.objects.set('/grey', await grey.png().toBuffer());
    const id = await rig.claim({
      capability: CAPABILITY,
      settings: { prompt: FACE_UPLOAD },
      inputs: { face: { url: store.url('/grey'), maxBytes: 0n } },
    });
    const relay = rig.relay(id);
    await relay.over;
    expect(relay.ended()?.message).toBe('the session could not be made ready');
    await until(() => rig.live.statement[0]?.slots === 1 && !rig.live.statement[0].warming, 'warm again');
    const next = await session(rig);
    expect((await send(next.relay)).face[2]).toBeGreaterThan(200);
    await next.relay.close();
  });
});
