import { centroid, type Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import type { Track } from './track.ts';

/**
 * Largest change of position or size between frames, as a share of the width; a larger one means that the mesh lies
 * on something else.
 */
const MAX_SHIFT = 0.45;
const MAX_GROWTH = 0.35;
/** Distance below which two meshes lie on one face. */
const SAME_PLACE = 0.4;

/** Returns the distance of the middles of two faces as a share of their width. */
function distance(a: Face, b: Face): number {
  const p = centroid(a.points, FACE_OVAL);
  const q = centroid(b.points, FACE_OVAL);
  return Math.hypot(p.x - q.x, p.y - q.y) / Math.max(1, Math.min(a.width, b.width));
}

/** Returns the change of size between two faces, as a natural logarithm. */
function growth(a: Face, b: Face): number {
  return Math.abs(Math.log(Math.max(1, a.width) / Math.max(1, b.width)));
}

/** Returns whether a fit can be the face that was expected there. */
export function follows(face: Face, expected: Face): boolean {
  return distance(face, expected) <= MAX_SHIFT && growth(face, expected) <= MAX_GROWTH;
}

/** Returns whether two meshes lie on one face. */
export function onOneFace(a: Face, b: Face): boolean {
  return distance(a, b) < SAME_PLACE;
}

/** Returns the expected width of the widest tracked face in a frame; 0 without one. */
export function widestOf(tracks: readonly Track[], index: number): number {
  return Math.max(0, ...tracks.map((track) => track.predict(index)?.width ?? 0));
}

/** Returns the track of a found face. A lost one may have moved. */
export function nearest(tracks: readonly Track[], face: Face): Track | undefined {
  let best: { track: Track; far: number } | undefined;
  for (const track of tracks) {
    const expected = track.predict(track.last + 1);
    if (!expected) continue;
    const far = distance(expected, face) + growth(expected, face);
    if (far < 0.9 && (!best || far < best.far)) best = { track, far };
  }
  return best?.track;
}
