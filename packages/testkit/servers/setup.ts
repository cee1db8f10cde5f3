import { createTestServers, serveTestServers } from './servers.ts';

/**
 * Vitest's global setup: offers the servers of the run to its workers. A server starts when a worker first asks for
 * it.
 */
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
