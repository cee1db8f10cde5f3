import type { Stack } from '@semblance/testkit/stack/stack';

/** Sets or clears the drain of a stack's agents: of the named ones, or else of all. */
export async function drainAgents(stack: Stack, drain = true, only?: readonly string[]): Promise<void> {
  const listed = (await stack.kubectl(['get', 'gpuagents', '-o', 'name'])).split('\n').filter(Boolean);
  const names = only ?? listed.map((name) => name.replace(/^.*\//, ''));
  await Promise.all(names.map((name) => stack.kubectl.patch('gpuagent', name, { spec: { drain } })));
}
