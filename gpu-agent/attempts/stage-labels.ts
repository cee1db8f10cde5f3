/** Names of stages told apart for one capability: more than the builtin engine and the owner's models have together. */
const MAX_NAMES = 60;
const OTHER = 'other';

/**
 * Returns what a stage is called in the agent's figures. Engines name their stages as they like, a figure is kept for
 * each name for the life of the process, and one that names a stage after a frame would fill its memory: the names
 * that come first are told apart, and what comes later is `other`.
 */
export function createStageLabels(most = MAX_NAMES): (capability: string, stage: string) => string {
  const known = new Map<string, Set<string>>();
  return (capability, stage) => {
    const names = known.get(capability) ?? new Set();
    known.set(capability, names);
    if (names.size < most) names.add(stage);
    return names.has(stage) ? stage : OTHER;
  };
}
