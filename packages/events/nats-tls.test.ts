import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Authority, createAuthority } from '@semblance/common/grpc/tls/authority';
import { silentLogger } from '@semblance/common/logging';
import { natsOptions } from '@semblance/common/nats-url';
import { createGuard } from '@semblance/common/process/guard';
import { natsConfiguration, natsService, natsUrl } from '@semblance/local/nats';
import { freePort } from '@semblance/local/process/ports';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { type RunningService, startNats, startService } from '@semblance/testkit/servers/start';
import { connect } from 'nats';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { jobEvent } from './jobs.ts';
import { createNatsBus } from './nats-bus.ts';

/** The tests use a real nats-server whose certificate comes from an authority that no client trusts by default. */
let folder: string;
let url: string;
let authority: Authority;
let server: RunningService;
let binary: string;
const guard = createGuard();
const file = (name: string) => join(folder, name);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'semblance-nats-tls-'));
  binary = (await resolveTools(['nats-server']))['nats-server'];
  authority = await createAuthority();
  const { certificate, key } = await authority.issue({ names: ['localhost'] });
  await writeFile(file('ca.crt'), authority.pem);
  await writeFile(file('other.crt'), (await createAuthority()).pem);
  await writeFile(file('nats.crt'), certificate);
  await writeFile(file('nats.key'), key, { mode: 0o600 });
  const port = await freePort();
  // For a server addressed by IP, this client checks only that the certificate names `localhost`.
  url = (await natsUrl(folder, port)).replace('nats:', 'tls:').replace('@127.0.0.1', '@localhost');
  const configuration = natsConfiguration({
    listen: `127.0.0.1:${port}`,
    storeDir: file('store'),
    durable: false,
    password: new URL(url).password,
  });
  await writeFile(
    file('tls.conf'),
    `${configuration}tls { cert_file: "${file('nats.crt')}", key_file: "${file('nats.key')}" }\n`,
  );
  const launch = async () => ({ command: binary, args: ['--config', file('tls.conf')] });
  const spec = { ...natsService({ binary, dir: folder, port }), launch };
  server = await startService({ spec, guard, logFile: file('nats.log') });
});
afterAll(async () => {
  await server?.stop();
  await guard.close();
  await rm(folder, { recursive: true });
});

const publishing = async (caFile?: string) => {
  const bus = createNatsBus({ url, caFile, name: 'test', logger: silentLogger() });
  try {
    await expect.poll(() => bus.check()).toBeUndefined();
    await bus.publish(jobEvent('job-1', 'queued', new Date()));
  } finally {
    await bus.close();
  }
};

test('a server is spoken to whose certificate is of the authority named', () => publishing(file('ca.crt')));

test.each([
  ['of another authority', 'other.crt'],
  ['of none that the system knows', undefined],
])('a server whose certificate is %s is given no password', async (_what, name) => {
  const options = natsOptions(url, name && file(name));
  await expect(connect({ ...options, reconnect: false, timeout: 5_000 })).rejects.toThrow(
    /certificate|signed|verify/,
  );
});

test('a server that offers no TLS is given no password where TLS is asked for', async () => {
  const plain = await startNats({ binary, dir: file('plain'), durable: false, guard });
  for (const options of [
    natsOptions(plain.url.replace('nats:', 'tls:')),
    natsOptions(plain.url, file('ca.crt')),
  ])
    await expect(connect({ ...options, reconnect: false, timeout: 5_000 })).rejects.toThrow(
      /TLS|tls|option/i,
    );
  await plain.stop();
});
