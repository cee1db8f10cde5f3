import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import type { CheckSubject } from './check.ts';

/**
 * Returns the inputs of a job as a subject of the checks.
 * @param inputs role → path
 */
export function inputSubject(
  {
    jobName,
    capability,
    parameters,
  }: {
    readonly jobName: string;
    readonly capability: Capability;
    readonly parameters: Readonly<Record<string, string>>;
  },
  inputs: Readonly<Record<string, string>>,
): CheckSubject {
  const facts = inputsOf(capability);
  const files = Object.entries(inputs).flatMap(([role, path]) => {
    const kind = facts[role]?.kind;
    return kind ? [{ role, path, kind }] : [];
  });
  return { phase: 'input', jobName, capability, parameters, files };
}
