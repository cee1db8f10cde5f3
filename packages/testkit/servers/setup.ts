import { createTestServers, serveTestServers } from './servers.ts';

/** Vitest's global setup: offers the run's servers to its workers; nothing is started until one of them asks. */
export default async function setup(): Promise<() => Promise<void>> {
  const servers = await createTestServers();
  const broker = await serveTestServers(servers);
  process.env.SEMBLANCE_TEST_SERVERS = broker.socket;
  return async () => {
    delete process.env.SEMBLANCE_TEST_SERVERS;
    await broker.close();
    await servers.close();
  };
}
