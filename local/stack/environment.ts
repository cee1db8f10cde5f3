/** States what any program may need of the environment it runs in. None of it is a credential. */
const ORDINARY = /^(PATH|HOME|TMPDIR|LANG|LC_.*|TZ|XDG_.*|NODE_.*|LD_LIBRARY_PATH|(CUDA|NVIDIA|OMP|ORT)_.*)$/;
/** States where traces go. */
const TRACES = /^OTEL_/;
/** States what the client of an S3 bucket finds its credentials by. */
const BUCKET = /^AWS_/;

/**
 * The part of our environment that a service is given: what is ordinary, and the settings it reads itself. A password
 * of the database set for the stack thus reaches the control plane, and neither the gateway nor the agent.
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
