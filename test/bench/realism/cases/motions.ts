import type { Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { animated } from './animated.ts';
import type { Portrait } from './portrait.ts';

/** Frames of a clip. */
const FRAMES = 36;
/** Width of a face in a clip, in pixels. */
const FACE_WIDTH = 170;

/** Returns the middle of a face and the enlargement at which it is {@link FACE_WIDTH} wide. */
const viewOf = ({ face }: Portrait) => ({
  x: face.points[12] as number,
  y: face.points[13] as number,
  zoom: FACE_WIDTH / face.width,
});

/** Phase of a frame, 0 to 2 π over the clip. */
const phase = (frame: number): number => (2 * Math.PI * frame) / FRAMES;

type Film = (portrait: Portrait) => Scene[] | Promise<Scene[]>;

const WAYS = {
  'clip: moving': (portrait) => {
    const { x, y, zoom } = viewOf(portrait);
    const far = 0.25 * portrait.face.width;
    const view = (frame: number) => ({
      x: x + far * Math.sin(phase(frame)),
      y: y + 0.5 * far * Math.sin(2 * phase(frame)),
      zoom,
    });
    return [{ picture: portrait.picture, frames: FRAMES, view }];
  },
  'clip: zooming': (portrait) => {
    const { x, y, zoom } = viewOf(portrait);
    const view = (frame: number) => ({ x, y, zoom: zoom * 1.5 ** -Math.cos(phase(frame)) });
    return [{ picture: portrait.picture, frames: FRAMES, view }];
  },
  'clip: turning': (portrait) => {
    const view = (frame: number) => ({ ...viewOf(portrait), turn: 0.4 * Math.sin(phase(frame)) });
    return [{ picture: portrait.picture, frames: FRAMES, view }];
  },
  'clip: driven': async (portrait) => {
    const draw = await animated(portrait.picture, portrait.face);
    const view = () => viewOf(portrait);
    return Array.from({ length: FRAMES }, (_, frame) => ({
      picture: draw(driven(frame)),
      frames: 1,
      view,
    }));
  },
} satisfies Record<string, Film>;

/** The head turns to both sides and nods; the eyes blink in the middle of the clip. */
function driven(frame: number) {
  const blink = 1 - Math.max(0, 1 - Math.abs(frame - FRAMES / 2) / 3);
  return {
    yaw: 0.3 * Math.sin(phase(frame)),
    pitch: 0.1 * Math.sin(2 * phase(frame)),
    roll: 0.08 * Math.sin(phase(frame)),
    expression: { eyes: [blink, blink] as const },
  };
}

export type MotionName = keyof typeof WAYS;
export const MOTIONS = Object.keys(WAYS) as MotionName[];

/** Returns the scenes of a clip in which a portrait moves. */
export async function film(name: MotionName, portrait: Portrait): Promise<Scene[]> {
  return WAYS[name](portrait);
}
