/** Pitch range of RVC's classes, in Hz. */
const LOWEST_HZ = 50;
const HIGHEST_HZ = 1_100;
const CLASSES = 254;
/** RMVPE: cents of its first class above 10 Hz, and cents between two classes. */
const FIRST_CENTS = 1997.3794084376191;
const STEP_CENTS = 20;
export const BINS = 360;
/** Number of classes that count on each side of the strongest. */
const AROUND = 4;

const mel = (hz: number) => 1127 * Math.log(1 + hz / 700);

/** Returns the class of a pitch, 1 to 255; 1 without a voice. */
export function pitchClass(hz: number): number {
  if (hz <= 0) return 1;
  const share = (mel(hz) - mel(LOWEST_HZ)) / (mel(HIGHEST_HZ) - mel(LOWEST_HZ));
  return Math.round(Math.min(255, Math.max(1, 1 + CLASSES * share)));
}

/** Returns the pitch of one frame of RMVPE's salience in Hz; 0 when none reaches the threshold. */
export function pitchOfSalience(salience: Float32Array, threshold: number): number {
  let strongest = 0;
  for (let i = 1; i < BINS; i++) if ((salience[i] as number) > (salience[strongest] as number)) strongest = i;
  if ((salience[strongest] as number) <= threshold) return 0;
  let [sum, weights] = [0, 0];
  for (let i = Math.max(0, strongest - AROUND); i <= Math.min(BINS - 1, strongest + AROUND); i++) {
    const weight = salience[i] as number;
    sum += weight * (FIRST_CENTS + STEP_CENTS * i);
    weights += weight;
  }
  return 10 * 2 ** (sum / weights / 1_200);
}
