import type { z } from 'zod';

/**
 * Returns the faults of a body for the message of `invalid_input`: each faulty field once, without its value.
 * @param body the checked value; a faulty field that it lacks is required
 */
export function faultsOf(issues: readonly z.core.$ZodIssue[], body: unknown): string {
  const faults = new Map<string, string>();
  for (const issue of issues) {
    const field = issue.path.join('.');
    if (faults.has(field)) continue;
    const missing = field !== '' && valueAt(body, issue.path) === undefined;
    faults.set(field, missing ? 'is required' : issue.message);
  }
  return `${[...faults].map(([field, fault]) => (field ? `${field} ${fault}` : fault)).join('; ')}.`;
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((value, name) => (value as Record<PropertyKey, unknown> | undefined)?.[name], body);
}
