import { LIP_COLUMNS, lipColumn, mouthWidth, shapeLips } from '../animate/lips.ts';
import { setSmile, smileOf } from '../animate/smile.ts';
import type { MouthCommand } from './mouth-track.ts';

/**
 * Width of a mouth at rest, in IOD, from which it smiles. It is pulled apart less then, and not at all at the
 * second width.
 */
const SMILES = 0.88;
const SMILE_RANGE = 0.25;
/** Share of the still's smile that goes while its mouth speaks. */
const RELAXED = 0.4;
/** How far pressed lips roll in, and how far the lower lip goes under the teeth, in IOD. */
const PRESS = 0.016;
const TUCK = 0.035;
const LIFT = 0.014;

/** Returns the offsets of a portrait's lips, relative to rest, for a command. */
export function speakingLips(rest: Float32Array, command: MouthCommand): Float32Array {
  const smile = Math.min(1, Math.max(0, (mouthWidth(rest) - SMILES) / SMILE_RANGE));
  const offsets = shapeLips(rest, {
    open: command.closed ? 0 : command.open + 0.02 * command.tuck,
    spread: command.spread * (1 - smile),
    round: command.round,
  });
  relax(rest, offsets);
  const { tuck } = command;
  const press = command.closed ? PRESS : 0;
  if (tuck > 0 || press > 0) {
    for (let k = 0; k < LIP_COLUMNS; k++) {
      const { upperOuter, upperInner, lowerInner, lowerOuter } = lipColumn(k);
      const t = (k + 1) / (LIP_COLUMNS + 1);
      const middle = 4 * t * (1 - t);
      const move = (point: number, by: number): void => {
        offsets[point * 2 + 1] = (offsets[point * 2 + 1] as number) + by * middle;
      };
      move(lowerInner, -LIFT * tuck);
      move(lowerOuter, -TUCK * tuck - press);
      move(upperInner, -LIFT * tuck);
      move(upperOuter, -0.5 * LIFT * tuck + 0.6 * press);
    }
  }
  for (let i = 0; i < offsets.length; i++) offsets[i] = (offsets[i] as number) * (1 - command.rest);
  return offsets;
}

/** Takes a part of the smile at rest out of the lips. */
function relax(rest: Float32Array, offsets: Float32Array): void {
  const own = smileOf(rest);
  const { width, lift } = smileOf(rest.map((value, i) => value + (offsets[i] as number)));
  setSmile(rest, offsets, {
    width: width - RELAXED * Math.max(0, own.width - SMILES),
    lift: lift - RELAXED * Math.max(0, own.lift),
  });
}
