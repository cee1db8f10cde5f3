import { lipGaps } from '../animate/lips.ts';
import { DriverReference, type Motion } from './measure.ts';
import { type Neutral, neutralOf } from './retarget.ts';

/** Number of frames whose median is the first pose: the mesh settles on a face in its first two or three. */
const BEGINNING = 5;

type Place = Pick<Motion, 'roll' | 'yaw' | 'pitch' | 'dx' | 'dy' | 'scale'>;

/**
 * The motion of a driver. Its face is compared with a frame in which it rests, because an open mouth or shut eyes
 * change how the mesh sees a head; its pose is that relative to the beginning.
 */
export class DriverMotion {
  readonly neutral: Neutral;
  readonly #rested: DriverReference;
  readonly #first: Place;

  /** @param frames the mesh's points in all frames that are known; at least one */
  constructor(frames: readonly Float32Array[]) {
    const rested = new DriverReference(frames[restedOf(frames)] as Float32Array);
    this.#rested = rested;
    const beginning = frames.slice(0, BEGINNING).map((points) => rested.measure(points));
    const median = (of: keyof Place): number => {
      const sorted = beginning.map((motion) => motion[of]).sort((a, b) => a - b);
      return sorted[sorted.length >> 1] as number;
    };
    this.#first = {
      roll: median('roll'),
      yaw: median('yaw'),
      pitch: median('pitch'),
      dx: median('dx'),
      dy: median('dy'),
      scale: median('scale'),
    };
    this.neutral = neutralOf(frames.map((points) => this.measure(points)));
  }

  measure(points: Float32Array): Motion {
    const motion = this.#rested.measure(points);
    const { roll, yaw, pitch, dx, dy, scale } = this.#first;
    return {
      ...motion,
      roll: motion.roll - roll,
      yaw: motion.yaw - yaw,
      pitch: motion.pitch - pitch,
      dx: (motion.dx - dx) / scale,
      dy: (motion.dy - dy) / scale,
      scale: motion.scale / scale,
    };
  }
}

/** Opening of the mouth, as a sum over its columns in IOD, that counts as much as half of the eyes' openness. */
const MOUTH = 0.3;

/** Returns which frame is most at rest: its mouth closed, its eyes open, its head where it is in the first frame. */
function restedOf(frames: readonly Float32Array[]): number {
  const reference = new DriverReference(frames[0] as Float32Array);
  const motions = frames.map((points) => reference.measure(points));
  const { eyes: usual } = neutralOf(motions);
  const unrest = motions.map(({ lips, eyes, roll, yaw, pitch }) => {
    const open = lipGaps(lips).reduce((sum, gap) => sum + gap, 0);
    const shut = Math.max(0, 2 - eyes[0] / usual[0] - eyes[1] / usual[1]);
    return open / MOUTH + shut + Math.hypot(roll, yaw, pitch);
  });
  return unrest.reduce((best, value, i) => (value < (unrest[best] as number) ? i : best), 0);
}
