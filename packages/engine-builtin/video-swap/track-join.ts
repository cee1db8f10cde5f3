import type { Face } from '@semblance/vision/face-mesh';
import { smoothstep } from '@semblance/vision/plane/plane';
import type { IndexedFrame } from './frame-part.ts';
import { brightnessUnder, likeness } from './likeness.ts';
import type { Track } from './track.ts';

/** Adds a sample to a track and bridges the frames since the last one. @param known frames by their index */
export function joinTrack(
  track: Track,
  index: number,
  face: Face,
  known: ReadonlyMap<number, IndexedFrame>,
): void {
  const from = track.last;
  const last = track.at(from);
  track.set(index, { points: face.points, score: face.score, seen: 1 });
  if (!last) return;
  for (let gap = from + 1; gap < index; gap++) {
    const share = (gap - from) / (index - from);
    const points = last.points.map((v, i) => v + ((face.points[i] as number) - v) * share);
    const [lost, seen] = [known.get(gap), known.get(from) ?? known.get(index)];
    const like =
      lost && seen
        ? likeness(
            brightnessUnder(lost, points),
            brightnessUnder(seen, known.get(from) ? last.points : face.points),
          )
        : 0;
    track.set(gap, { points, score: last.score, seen: smoothstep(0.4, 0.7, like) });
  }
}
