import type { FoundPeople, FoundPerson } from '@semblance/engine-api/people';
import type { Picture } from '@semblance/engine-api/picture';
import { regionToRgb } from '@semblance/media/yuv';
import { centroid, type Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { toCrop } from '@semblance/vision/picture';
import sharp from 'sharp';
import type { MediaRig } from '../media/clips.ts';
import { GROUP } from './group.ts';
import { COLOR, cropOf, makeClip, readPicture, type View } from './video-swap/clips.ts';

/** Size of a frame of the clip, in pixels. */
export const SIZE = { width: 960, height: 700 };
/** The group, then its mirror image from nearer, then the group again. */
const WIDE = (i: number): View => ({ x: 960 + 3 * Math.sin(i / 4), y: 699, zoom: 0.5 });
const NEAR = (i: number): View => ({
  x: 900 + 4 * Math.cos(i / 5),
  y: 640,
  zoom: 0.56,
  turn: 0.03 * Math.sin(i / 6),
});
const SCENES: readonly { frames: number; view: (frame: number) => View; mirrored: boolean }[] = [
  { frames: 18, view: WIDE, mirrored: false },
  { frames: 22, view: NEAR, mirrored: true },
  { frames: 12, view: WIDE, mirrored: false },
];

/** A clip of the five people of a photograph with two cuts, 25 frames a second, and who is where in it. */
export class GroupClip {
  readonly path: string;
  /** Paths of the photograph in the light of the clip, and of its mirror image. */
  readonly still: string;
  readonly mirrored: string;
  readonly #rig: MediaRig;
  readonly #group: Picture;
  readonly #stills: FoundPeople;

  private constructor(rig: MediaRig, name: string, group: Picture, stills: FoundPeople) {
    this.#rig = rig;
    this.path = rig.path(name);
    this.still = rig.path(`${name}.png`);
    this.mirrored = rig.path(`${name}.mirrored.png`);
    this.#group = group;
    this.#stills = stills;
  }

  /**
   * Makes the clip.
   * @param stills the people of the photograph, as an engine found them
   * @param light factor of all values; what is too bright is white
   */
  static async make(rig: MediaRig, name: string, stills: FoundPeople, light = 1): Promise<GroupClip> {
    const mirror = rig.path(`${name}.mirror.png`);
    await sharp(GROUP).flop().png().toFile(mirror);
    const lit = async (file: string): Promise<Picture> => {
      const picture = await readPicture(file);
      return { ...picture, data: Uint8Array.from(picture.data, (value) => Math.min(255, value * light)) };
    };
    const [group, mirrored] = [await lit(GROUP), await lit(mirror)];
    const scenes = SCENES.map((scene) => ({ ...scene, picture: scene.mirrored ? mirrored : group }));
    const clip = new GroupClip(rig, name, group, stills);
    const { width, height } = group;
    const still = sharp(group.data, { raw: { width, height, channels: 3 } });
    await still.clone().png().toFile(clip.still);
    await still.flop().png().toFile(clip.mirrored);
    await makeClip(rig.media, { path: clip.path, ...SIZE, scenes });
    return clip;
  }

  /** Returns the places in the photograph of people who were found in the clip. */
  placesOf({ people }: FoundPeople): number[] {
    return people.map(({ box, atUs }) => {
      const frame = Math.round(atUs / 40_000);
      const at = { x: (box.x + box.width / 2) * SIZE.width, y: (box.y + box.height / 2) * SIZE.height };
      const far = this.#stills.people.map((still) => {
        const there = this.#inFrame(still, frame);
        return Math.hypot(there.x - at.x, there.y - at.y);
      });
      return far.indexOf(Math.min(...far));
    });
  }

  /** Returns who of the photograph a face in a frame is; -1: nobody. */
  personAt(face: Face, frame: number): number {
    const { x, y } = centroid(face.points, FACE_OVAL);
    return this.#stills.people.findIndex((person) => {
      const at = this.#inFrame(person, frame);
      return Math.hypot(x - at.x, y - at.y) < face.width / 2;
    });
  }

  /** Returns whether a frame shows the mirror image. */
  isMirrored(frame: number): boolean {
    const [first, second] = SCENES as readonly [(typeof SCENES)[number], (typeof SCENES)[number]];
    return frame >= first.frames && frame < first.frames + second.frames;
  }

  /** Decodes the clip, or a video that was made of it. */
  async framesOf(path = this.path): Promise<Picture[]> {
    const { media, signal } = this.#rig;
    const info = await media.probe(path, 'video', signal);
    const pictures: Picture[] = [];
    for await (const frame of media.decodeVideo(path, info, { signal })) {
      const { width, height } = frame;
      pictures.push(regionToRgb(frame, { x: 0, y: 0, width, height }, COLOR));
    }
    return pictures;
  }

  #inFrame({ box }: FoundPerson, frame: number) {
    let first = 0;
    for (const { frames, view, mirrored } of SCENES) {
      if (frame < first + frames) {
        const x = (box.x + box.width / 2) * this.#group.width;
        const y = (box.y + box.height / 2) * this.#group.height;
        return toCrop(cropOf(view(frame - first), SIZE), mirrored ? this.#group.width - x : x, y);
      }
      first += frames;
    }
    throw new RangeError(`no frame ${frame}`);
  }
}
