import type { Logger } from '../logging.ts';
import { isKubeError } from './errors.ts';

/** For how long a field is left out before it is tried again: the definition may have been upgraded since. */
const REMEMBER_MS = 60_000;

/** One step of a path as the API server writes it, `.name`, with selections of list elements behind it. */
const STEP = String.raw`\.[^.[\]:\s]+(?:\[(?:"(?:\\.|[^"\\])*"|[^\]"])*\])*`;
const REFUSED = new RegExp(`((?:${STEP})+): field not declared in schema`, 'g');
const SELECTION = /\[(?:"(?:\\.|[^"\\])*"|[^\]"])*\]/g;

/** Paths of the fields that a refused apply had and the resource's definition has not, such as `.status.engines[].speed`. */
export function undeclaredFields(error: unknown): string[] {
  if (!isKubeError(error)) return [];
  return [...error.message.matchAll(REFUSED)].map(([, path = '']) => path.replace(SELECTION, '[]'));
}

/** The value without the fields at that path, in every element of the lists on the way. */
export function without<T>(value: T, path: string): T {
  const steps = path
    .slice(1)
    .split('.')
    .flatMap((step) => step.replaceAll('[]', '.[]').split('.'));
  return remove(value, steps) as T;
}

function remove(value: unknown, [step = '', ...rest]: readonly string[]): unknown {
  if (step === '[]') return Array.isArray(value) ? value.map((each) => remove(each, rest)) : value;
  if (typeof value !== 'object' || value === null || !(step in value)) return value;
  const { [step]: inner, ...others } = value as Record<string, unknown>;
  return rest.length === 0 ? others : { ...others, [step]: remove(inner, rest) };
}

/**
 * Server-side apply refuses an object whole for one field that the definition does not declare. A process may be newer
 * than the definitions of its cluster: after a rollback, which takes them back before it, or where another release keeps
 * them. What it states of itself then goes without those fields. Of a spec, which is what somebody wants, nothing is left out.
 */
export function createDeclaredApply(logger?: Logger) {
  const known = new Map<string, { readonly paths: string[]; readonly since: number }>();
  const said = new Set<string>();

  return async function apply<T extends object, R>(
    { plural }: { readonly plural: string },
    object: T,
    send: (object: T) => Promise<R>,
  ): Promise<R> {
    for (;;) {
      const before = known.get(plural);
      if (before && performance.now() - before.since > REMEMBER_MS) known.delete(plural);
      const { paths = [], since = performance.now() } = known.get(plural) ?? {};
      try {
        return await send(paths.reduce(without, object));
      } catch (error) {
        const more = undeclaredFields(error).filter(
          (path) => path.startsWith('.status.') && !paths.includes(path),
        );
        if (more.length === 0) throw error;
        known.set(plural, { paths: [...paths, ...more], since });
        for (const path of more) {
          if (said.has(`${plural} ${path}`)) continue;
          said.add(`${plural} ${path}`);
          logger?.warn(
            `the cluster's definition of ${plural} is of another release: it has no ${path}, which is left out`,
          );
        }
      }
    }
  };
}
