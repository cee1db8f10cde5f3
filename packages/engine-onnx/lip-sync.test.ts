/** @module-tag ffmpeg */

import { ADMIRAL } from '@semblance/testkit/engine-builtin/swap-rig';
import { makeClip, readPicture, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyWav2lip } from '@semblance/testkit/engine-onnx/tiny-models';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, expect, it } from 'vitest';

const SIZE = { width: 480, height: 360 };
/** Position of the face in the clip, with a margin. */
const FACE = { left: 120, top: 40, right: 360, bottom: 320 };

const rig = useOnnxRig();
let media: MediaRig;
beforeAll(async () => {
  media = await openMediaRig();
});
afterAll(() => media.close());

/** Blurs the face as a fast camera pan does, so that no network finds it. */
function blur(rgb: Float32Array): void {
  const reach = 25;
  for (let pass = 0; pass < 2; pass++) {
    const from = rgb.slice();
    for (let y = FACE.top; y < FACE.bottom; y++) {
      for (let x = FACE.left; x < FACE.right; x++) {
        const [start, end] = [Math.max(FACE.left, x - reach), Math.min(FACE.right - 1, x + reach)];
        for (let c = 0; c < 3; c++) {
          let sum = 0;
          for (let at = start; at <= end; at++) sum += from[(y * SIZE.width + at) * 3 + c] as number;
          rgb[(y * SIZE.width + x) * 3 + c] = sum / (end - start + 1);
        }
      }
    }
  }
}

function hide(rgb: Float32Array): void {
  for (let y = FACE.top; y < FACE.bottom; y++)
    rgb.fill(90, (y * SIZE.width + FACE.left) * 3, (y * SIZE.width + FACE.right) * 3);
}

it.each([
  ['speaks on where it is blurred for three frames', blur, 16],
  ['is left alone behind a board and speaks as soon as that is gone', hide, 13],
] as const)('Lip Sync through wav2lip: a face %s', async (_, change, spoken) => {
  const picture = await readPicture(ADMIRAL);
  const scene: Scene = {
    picture,
    frames: 16,
    view: (i) => ({ x: 255 + i / 4, y: 190, zoom: 1 }),
    change: (rgb, frame) => frame >= 6 && frame < 9 && change(rgb),
  };
  const video = media.path(`${change.name}.mp4`);
  await makeClip(media.media, { path: video, ...SIZE, scenes: [scene] });
  const engine = await rig.engine([{ contract: 'wav2lip_96', bytes: tinyWav2lip() }]);
  const { details } = await engine.render({
    capability: 'lip-sync',
    parameters: {},
    outputDir: await rig.outputDir(),
    inputs: { video, audio: await media.make('sine.wav', '-f lavfi -i sine=440:d=0.64') },
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  expect(details).toMatchObject({ frames: 16, frames_with_face: spoken });
});
