import type { Capability } from './capabilities.ts';

/** Capabilities of which one frame can be seen before a submit. */
export const PREVIEWED = ['face-swap-image', 'face-swap'] as const satisfies readonly Capability[];

export function isPreviewed(text: string): text is (typeof PREVIEWED)[number] {
  return (PREVIEWED as readonly string[]).includes(text);
}
