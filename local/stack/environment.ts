/** Variables that any program may need from its environment. None of them is a credential. */
const ORDINARY = /^(PATH|HOME|TMPDIR|LANG|LC_.*|TZ|XDG_.*|NODE_.*|LD_LIBRARY_PATH|(CUDA|NVIDIA|OMP|ORT)_.*)$/;
/** Variables that configure where traces are sent. */
const TRACES = /^OTEL_/;
/** Variables from which the client of an S3 bucket reads its credentials. */
const BUCKET = /^AWS_/;

/**
 * Returns the part of the environment that a service gets: the ordinary variables and the settings that it reads.
 * So a database password set for the stack reaches the control plane, but neither the gateway nor the agent.
 * @param reads names of the service's own settings
 */
export function environmentFor(reads: readonly string[], env: NodeJS.ProcessEnv): Record<string, string> {
  const own = new Set(reads);
  const wanted = (name: string) =>
    own.has(name) ||
    ORDINARY.test(name) ||
    TRACES.test(name) ||
    (own.has('SEMBLANCE_OBJECTS_URL') && BUCKET.test(name));
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && wanted(name)) kept[name] = value;
  }
  return kept;
}
