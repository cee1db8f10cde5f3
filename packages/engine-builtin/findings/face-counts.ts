import type { FaceCounts, LeftReason } from '@semblance/engine-api/findings';

/**
 * Counts the faces of a picture.
 * @param left why each of the others was left alone
 */
export function faceCounts(changed: number, left: readonly LeftReason[]): FaceCounts {
  const counts = new Map<LeftReason, number>();
  for (const reason of left) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return {
    found: changed + left.length,
    changed,
    left: [...counts].map(([reason, count]) => ({ reason, count })),
  };
}

/** Adds faces that were left alone because they are not the ones that are changed. */
export function withBystanders(left: readonly LeftReason[], count: number): LeftReason[] {
  return [...left, ...Array<LeftReason>(count).fill('bystander')];
}
