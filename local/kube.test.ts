import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { runScript } from '@semblance/testkit/common/run-script';
import { startKube } from '@semblance/testkit/servers/start';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { identify } from './process/identity.ts';
import { freePort } from './process/ports.ts';
import { resolveTools } from './toolchain/toolchain.ts';

/** These tests run the stack's Kubernetes API, as durable as the stack has it. */
let folder: string;
let guard: Guard;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-kube-'));
  guard = createGuard();
});
afterAll(async () => {
  await guard.close();
  rmSync(folder, { recursive: true, force: true });
});
const gone = (pid: number) => vi.waitFor(() => expect(identify(pid)).toBeUndefined(), 30_000);

describe('the Kubernetes API', () => {
  it('keeps its objects through kill -9 of both servers, and knows who asks', async () => {
    const binaries = await resolveTools(['etcd', 'kube-apiserver']);
    // This path is too long for a Unix socket.
    const dir = join(folder, 'a'.repeat(80), 'kube');
    const port = await freePort();
    const first = await startKube({ binaries, dir, port, namespace: 'semblance', guard });
    expect(statSync(first.kubeconfigPath).mode & 0o777).toBe(0o600);
    const config = new KubeConfig();
    config.loadFromFile(first.kubeconfigPath);
    expect(config.getContexts()[0]?.namespace).toBe('semblance');
    const api = KubernetesObjectApi.makeApiClient(config);
    const kind = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kept', namespace: 'default' } };
    await api.create({ ...kind, data: { a: 'b' } });
    for (const pid of Object.values(first.pids)) process.kill(pid, 'SIGKILL');
    for (const pid of Object.values(first.pids)) await gone(pid);
    await first.stop();

    const second = await startKube({ binaries, dir, port, namespace: 'semblance', guard });
    expect(await api.read(kind)).toMatchObject({ data: { a: 'b' } });

    const server = `https://127.0.0.1:${port}`;
    const stranger = new KubeConfig();
    stranger.loadFromClusterAndUser(
      { name: 'c', server, caData: config.getCurrentCluster()?.caData, skipTLSVerify: false },
      { name: 'u', token: 'guess' },
    );
    await expect(KubernetesObjectApi.makeApiClient(stranger).read(kind)).rejects.toMatchObject({ code: 401 });
    await second.stop();
    for (const pid of Object.values(second.pids)) expect(identify(pid)).toBeUndefined();
  }, 180_000);
});

describe('all of them', () => {
  it('end with whoever started them, kill -9 included', async () => {
    const here = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
    const owner = runScript(`
      import { startKube, startNats, startPostgres } from '@semblance/testkit/servers/start';
      import { resolveTools } from ${here('./toolchain/toolchain.ts')};
      import { writeFileSync } from 'node:fs';
      const dir = ${JSON.stringify(join(folder, 'owned'))};
      const tools = await resolveTools(['nats-server', 'etcd', 'kube-apiserver']);
      const [sql, nats, kube] = await Promise.all([
        startPostgres({ dataDir: dir + '/postgres', durable: false }),
        startNats({ binary: tools['nats-server'], dir: dir + '/nats', durable: false }),
        startKube({ binaries: tools, dir: dir + '/kube', durable: false }),
      ]);
      writeFileSync(dir + '/pids', JSON.stringify([sql.pid, nats.pid, ...Object.values(kube.pids)]));
      console.log('up');
    `);
    await owner.line('up');
    const pids = JSON.parse(readFileSync(join(folder, 'owned/pids'), 'utf8')) as number[];
    expect(pids).toHaveLength(4);
    for (const pid of pids) expect(identify(pid)).toBeDefined();
    owner.child.kill('SIGKILL');
    for (const pid of pids) await gone(pid);
  }, 180_000);
});
