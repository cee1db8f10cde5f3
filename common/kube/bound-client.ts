import type { CallOptions, KubeClient } from './client.ts';

/**
 * Returns a client that works until the signal aborts. Then its requests under way are cancelled and new ones fail.
 * It serves code that may act only while its process leads.
 */
export function boundClient(client: KubeClient, signal: AbortSignal): KubeClient {
  const bound = <O extends CallOptions>(options?: O): O => {
    const own = options?.signal;
    const both = own && own !== signal ? AbortSignal.any([own, signal]) : signal;
    return { ...options, signal: both } as O;
  };
  return {
    fieldManager: client.fieldManager,
    get: (resource, ref, options) => client.get(resource, ref, bound(options)),
    find: (resource, ref, options) => client.find(resource, ref, bound(options)),
    list: (resource, options) => client.list(resource, bound(options)),
    create: (resource, object, options) => client.create(resource, object, bound(options)),
    createForMetadata: (resource, object, options) =>
      client.createForMetadata(resource, object, bound(options)),
    replace: (resource, object, options) => client.replace(resource, object, bound(options)),
    apply: (resource, object, options) => client.apply(resource, object, bound(options)),
    mergePatch: (resource, ref, patch, options) => client.mergePatch(resource, ref, patch, bound(options)),
    delete: (resource, ref, options) => client.delete(resource, ref, bound(options)),
    watch: (resource, options) => client.watch(resource, bound(options)),
    version: (options) => client.version(bound(options)),
    close: () => client.close(),
  };
}
