import { startTestGateway } from '@semblance/testkit/gateway/test-gateway';
import { objectStoreConformance } from '@semblance/testkit/objects/conformance';

objectStoreConformance('A directory behind the gateway', async () => {
  const t = await startTestGateway();
  const { store } = t;
  return {
    // Links are followed at the address of this gateway.
    store: {
      put: store.put.bind(store),
      info: store.info.bind(store),
      delete: store.delete.bind(store),
      list: store.list.bind(store),
      read: store.read.bind(store),
      signGet: async (key, options) => t.local(await store.signGet(key, options)),
      async signPut(key, options) {
        const signed = await store.signPut(key, options);
        return { ...signed, url: t.local(signed.url) };
      },
    },
    leftovers: async () => (await t.files()).filter((path) => path.startsWith(`${t.folder}/tmp/`)),
    close: t.close,
  };
});
