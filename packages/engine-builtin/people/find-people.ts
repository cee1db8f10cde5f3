import { RenderError } from '@semblance/engine-api/engine';
import {
  type FoundPeople,
  type FoundPerson,
  lookText,
  MAX_PEOPLE,
  type Unsuitable,
} from '@semblance/engine-api/people';
import type { Picture } from '@semblance/engine-api/picture';
import { type FaceFinder, yaw } from '@semblance/vision/face-finder';
import { type CropSource, cropsOf, type Face } from '@semblance/vision/face-mesh';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { readShown } from '@semblance/vision/image/picture-file';
import type { RenderTools } from '../renderer.ts';
import { boxOf } from './box.ts';
import { jpegOf } from './crop.ts';
import { Crowd, type Sighting } from './crowd.ts';
import { sampledFrames } from './sampled-frames.ts';

/** Faces narrower than this share of the most prominent one are left out. */
const PEOPLE_SHARE = 0.2;
/** Smallest width of a face, in pixels, and as a share of the shorter side. */
const SMALLEST = 30;
const SMALLEST_SHARE = 0.05;
/** Smallest width and largest turn at which a person can be told from others. */
const TOLD_WIDTH = 36;
const TOLD_YAW = Math.PI / 4;
/** Smallest width of a face that is put on others. */
const SOURCE_WIDTH = 48;

export type PeopleTools = Pick<RenderTools, 'finder' | 'media' | 'signal' | 'checkpoint'> & {
  readonly recogniser: () => Promise<FaceRecogniser>;
};

/** Finds the people of the input `image` or `video`. @throws RenderError for a file that cannot be read */
export async function findPeople(
  { image, video }: Readonly<Record<string, string>>,
  tools: PeopleTools,
): Promise<FoundPeople> {
  if (image) return peopleOfPicture(await readShown(image, 'The picture'), tools);
  if (!video)
    throw new RenderError('processing_failed', 'A search for people needs the input image or video.');
  return peopleOfVideo(video, tools);
}

/**
 * Returns the faces of a picture, the most prominent first, with those that a swap would leave alone as too small.
 * @param smallestShare smallest width of a face, as a share of the shorter side
 */
export async function facesOf(
  finder: Pick<FaceFinder, 'lookUpright' | 'look'>,
  picture: Picture,
  checkpoint: () => void,
  smallestShare = SMALLEST_SHARE,
): Promise<readonly Face[]> {
  const smallest = Math.max(SMALLEST, smallestShare * Math.min(picture.width, picture.height));
  const { faces } = await finder.lookUpright(picture, smallest, checkpoint, { share: PEOPLE_SHARE });
  return faces.length > 0 ? faces : (await finder.look(picture, checkpoint)).faces;
}

/** Returns each face with its description. */
async function sight(
  faces: readonly Face[],
  crops: CropSource,
  { recogniser, checkpoint }: Pick<PeopleTools, 'recogniser' | 'checkpoint'>,
): Promise<Sighting[]> {
  const seen: Sighting[] = [];
  for (const face of faces) {
    checkpoint();
    const turn = Math.abs(yaw(face));
    seen.push({
      face,
      look: await (await recogniser()).describe(crops, face),
      told: face.width >= TOLD_WIDTH && turn <= TOLD_YAW,
      clearness: face.width * Math.max(0.05, Math.cos(turn)) ** 2,
    });
  }
  return seen;
}

/** Returns what makes a face hard to use. */
function faults({ width, ...face }: Face, least: number): Unsuitable[] {
  const turned = Math.abs(yaw({ width, ...face })) > TOLD_YAW;
  return [...(width < least ? (['face_small'] as const) : []), ...(turned ? (['face_turned'] as const) : [])];
}

async function peopleOfPicture(picture: Picture, tools: PeopleTools): Promise<FoundPeople> {
  const faces = await facesOf(tools.finder, picture, tools.checkpoint);
  const seen = await sight(faces, cropsOf(picture), tools);
  const people: FoundPerson[] = [];
  for (const [place, { face, look }] of seen.slice(0, MAX_PEOPLE).entries()) {
    people.push({
      box: boxOf(face, picture),
      atUs: 0,
      frames: 1,
      notSource: [...faults(face, SOURCE_WIDTH), ...(place > 0 ? (['bystander'] as const) : [])],
      // In a picture a face is known by its place, so it may be turned.
      notTarget: faults(face, SMALLEST).filter((fault) => fault !== 'face_turned'),
      look: lookText(look),
      crop: await jpegOf(picture, face),
    });
  }
  return { people, frames: 1 };
}

async function peopleOfVideo(path: string, tools: PeopleTools): Promise<FoundPeople> {
  const crowd = new Crowd();
  let frames = 0;
  for await (const { picture, ptsUs } of sampledFrames(path, tools)) {
    frames++;
    const smallest = Math.max(SMALLEST, 0.08 * Math.min(picture.width, picture.height));
    const { faces } = await tools.finder.lookUpright(picture, smallest, tools.checkpoint, {
      share: PEOPLE_SHARE,
    });
    await crowd.add(await sight(faces, cropsOf(picture), tools), { picture, ptsUs });
  }
  const people = crowd.people.slice(0, MAX_PEOPLE).map((person): FoundPerson => {
    const { best } = person;
    return {
      box: best.box,
      atUs: best.ptsUs,
      frames: person.frames,
      notSource: ['not_a_picture'],
      notTarget: person.told ? [] : faults(best.face, TOLD_WIDTH),
      look: lookText(person.look),
      crop: best.crop,
    };
  });
  return { people, frames };
}
