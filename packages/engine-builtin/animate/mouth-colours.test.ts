import type { Picture } from '@semblance/engine-api/picture';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { type MouthColours, mouthColours } from './mouth-colours.ts';
import { preparePortrait } from './prepare.ts';
import { planesOf } from './yuv.ts';

let picture: Picture;
let face: Face;
let colours: MouthColours;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  ({ picture, face } = await subjectOf(finder, ASTRONAUT, 0, 480));
  colours = coloursOf(picture);
});

function coloursOf(still: Picture): MouthColours {
  const { width, height, still: planes, shape, frame } = preparePortrait(still, face);
  return mouthColours(planesOf(planes, width, height), shape, frame.iod);
}

describe('the colours of a mouth', () => {
  it('are those of the face: lips redder and darker than skin, whites lighter than lips, black below all', () => {
    const { skin, lips, whites, black } = colours;
    expect(lips[2]).toBeGreaterThan(skin[2]);
    expect(lips[0]).toBeLessThan(skin[0]);
    expect(whites).toBeGreaterThan(lips[0]);
    expect(black).toBeLessThan(50);
  });

  it('become pale with the picture', () => {
    const pale = coloursOf({ ...picture, data: picture.data.map((value) => 90 + 0.6 * value) });
    expect(pale.black).toBeGreaterThan(85);
    expect(pale.whites).toBeGreaterThan(colours.whites);
  });

  it('are as blurred as the picture', async () => {
    const { width, height, data } = picture;
    const soft = await sharp(data, { raw: { width, height, channels: 3 } })
      .blur(2)
      .raw()
      .toBuffer();
    const blurred = coloursOf({ ...picture, data: new Uint8Array(soft) });
    expect(colours.blur).toBeLessThan(1.5);
    expect(blurred.blur).toBeGreaterThan(1.6);
    expect(blurred.blur).toBeLessThan(3);
  });
});
