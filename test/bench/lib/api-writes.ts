import type { Stack } from '@semblance/testkit/stack/stack';

const VERBS = new Set(['POST', 'PUT', 'PATCH', 'APPLY', 'DELETE']);

/** Writes that the Kubernetes API server has carried out, by kind, such as `PATCH renderjobs/status`. */
export type ApiWrites = ReadonlyMap<string, number>;

/** Reads the writes of all clients from the API server's own metrics. */
export async function apiWrites(stack: Stack): Promise<ApiWrites> {
  const writes = new Map<string, number>();
  const text = await stack.kubectl(['get', '--raw', '/metrics']);
  for (const line of text.split('\n')) {
    if (!line.startsWith('apiserver_request_total{')) continue;
    const { verb = '', resource = '', subresource = '', code = '' } = labelsOf(line);
    if (!VERBS.has(verb) || !code.startsWith('2')) continue;
    const what = `${verb} ${resource}${subresource && `/${subresource}`}`;
    writes.set(what, (writes.get(what) ?? 0) + Number(line.slice(line.lastIndexOf(' ') + 1)));
  }
  return writes;
}

/** Returns the writes between two readings, without kinds that have none. */
export function writesBetween(before: ApiWrites, after: ApiWrites): Map<string, number> {
  const between = new Map<string, number>();
  for (const [what, count] of after) {
    const more = count - (before.get(what) ?? 0);
    if (more > 0) between.set(what, more);
  }
  return between;
}

function labelsOf(line: string): Record<string, string> {
  return Object.fromEntries([...line.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]));
}
