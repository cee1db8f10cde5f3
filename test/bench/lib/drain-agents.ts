import type { Stack } from '@semblance/testkit/stack/stack';

/** Whether the agents of a stack take new work; those named, else all. */
export async function drainAgents(stack: Stack, drain = true, only?: readonly string[]): Promise<void> {
  const listed = (await stack.kubectl(['get', 'gpuagents', '-o', 'name'])).split('\n').filter(Boolean);
  const names = only ?? listed.map((name) => name.replace(/^.*\//, ''));
  await Promise.all(names.map((name) => stack.kubectl.patch('gpuagent', name, { spec: { drain } })));
}
