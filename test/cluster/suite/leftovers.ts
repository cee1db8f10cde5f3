import { kubectl } from './release.ts';

/** Returns everything in the namespace, without what every namespace has and without events. */
export async function leftovers(): Promise<string[]> {
  const kinds = (await kubectl(['api-resources', '--namespaced', '--verbs=list', '-o', 'name']))
    .split('\n')
    .filter((kind) => kind && !/^events(\.|$)/.test(kind));
  const found = await kubectl(['get', kinds.join(','), '-o', 'name', '--ignore-not-found']);
  return found
    .split('\n')
    .filter(Boolean)
    .filter((name) => !['configmap/kube-root-ca.crt', 'serviceaccount/default'].includes(name));
}
