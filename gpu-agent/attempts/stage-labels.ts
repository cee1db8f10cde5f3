/** Most stage names per capability: more than the builtin engine and the owner's models have together. */
const MAX_NAMES = 60;
const OTHER = 'other';

/**
 * Returns a function that gives the metric label of a stage. Engines choose the names, and each name stays a metric
 * for the life of the process. An engine with a stage per frame would fill the memory, so names beyond the limit
 * become `other`.
 */
export function createStageLabels(): (capability: string, stage: string) => string {
  const known = new Map<string, Set<string>>();
  return (capability, stage) => {
    const names = known.get(capability) ?? new Set();
    known.set(capability, names);
    if (names.size < MAX_NAMES) names.add(stage);
    return names.has(stage) ? stage : OTHER;
  };
}
