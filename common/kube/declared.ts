import type { Logger } from '../logging.ts';
import { isKubeError } from './errors.ts';

/**
 * Time for which a field is omitted before it is tried again, in ms, because the definition may have been upgraded.
 */
const REMEMBER_MS = 60_000;

/** Matches one step of a path as the API server writes it: `.name`, followed by selections of list elements. */
const STEP = String.raw`\.[^.[\]:\s]+(?:\[(?:"(?:\\.|[^"\\])*"|[^\]"])*\])*`;
const REFUSED = new RegExp(`((?:${STEP})+): field not declared in schema`, 'g');
const SELECTION = /\[(?:"(?:\\.|[^"\\])*"|[^\]"])*\]/g;

/**
 * Returns the paths of fields that a refused apply had but the resource definition lacks, such as
 * `.status.engines[].speed`.
 */
export function undeclaredFields(error: unknown): string[] {
  if (!isKubeError(error)) return [];
  return [...error.message.matchAll(REFUSED)].map(([, path = '']) => path.replace(SELECTION, '[]'));
}

/** Returns the value without the fields at `path`, in every element of the lists on the path. */
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
 * Creates a server-side apply that omits undeclared fields of a status, because the API server refuses the whole
 * object for one of them. A process may be newer than the cluster's definitions: after a rollback, which restores
 * the definitions first, or where another release owns them. Fields of a spec are never omitted, because a spec
 * says what somebody wants.
 */
export function createDeclaredApply(logger?: Logger) {
  const known = new Map<string, { readonly paths: string[]; readonly since: number }>();
  const logged = new Set<string>();

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
          if (logged.has(`${plural} ${path}`)) continue;
          logged.add(`${plural} ${path}`);
          logger?.warn(
            `the cluster's definition of ${plural} is of another release: it has no ${path}, which is left out`,
          );
        }
      }
    }
  };
}
