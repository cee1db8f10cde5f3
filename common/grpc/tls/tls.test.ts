import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { connect as connectPlain } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ServerDuplexStream, type ServiceError, status } from '@grpc/grpc-js';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ControlServiceClient, ControlServiceService } from '#proto/semblance/control/v1/control.ts';
import { writeAtomically } from '../../../local/process/write-atomically.ts';
import {
  type Authority,
  type CertificateOrder,
  createAuthority,
  type TlsFiles,
  writeTlsFiles,
} from '../../../local/stack/service-certificates.ts';
import { ConfigError } from '../../config.ts';
import { call, createClient } from '../client.ts';
import { type GrpcServer, startGrpcServer, unary } from '../server.ts';
import { CALLERS, COMPONENTS, type Component, nameOf } from './components.ts';
import { expiryCheck, observeExpiry } from './expiry.ts';
import { openTls, type Tls } from './tls.ts';

const POLL_MS = 20;
const SERVICE = 'semblance.control.v1.ControlService';
const DAY_MS = 86_400_000;
const ago = (days: number) => new Date(Date.now() - days * DAY_MS);

let authority: Authority;
let stranger: Authority;
let dir: string;
const lines: string[] = [];
const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
const opened: { close(): unknown }[] = [];

beforeAll(async () => {
  [authority, stranger] = await Promise.all([createAuthority(), createAuthority()]);
});
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-tls-'));
  lines.length = 0;
});
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
  await rm(dir, { recursive: true });
});

const issue = (component: Component, more: Partial<CertificateOrder> = {}, by = authority) =>
  by.issue({ names: [nameOf(component)], ...more });

/** Opens a folder of a component that holds the files. */
async function open(component: Component, files?: TlsFiles, folder = component as string): Promise<Tls> {
  await writeTlsFiles(join(dir, folder), files ?? (await issue(component)));
  const tls = await openTls({ dir: join(dir, folder), component, logger, pollMs: POLL_MS });
  opened.push(tls);
  return tls;
}

/** A server of a component whose one call answers, and whose stream echoes. */
async function serve(tls: Tls): Promise<GrpcServer> {
  const server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    tls,
    services: [
      {
        name: SERVICE,
        definition: ControlServiceService,
        implementation: {
          getJob: unary(logger, async ({ jobId }: { jobId: string }) => ({
            job: { id: jobId, status: 'queued' },
          })),
          watchJobs(stream: ServerDuplexStream<object, object>) {
            stream.on('data', () => stream.write({ watch: 1 }));
            stream.on('end', () => stream.end());
            stream.on('error', () => {});
          },
        },
      },
    ],
  });
  opened.push(server);
  return server;
}

function clientOf(server: GrpcServer, secure?: ReturnType<Tls['to']>): ControlServiceClient {
  const client = createClient(ControlServiceClient, `127.0.0.1:${server.port}`, undefined, secure);
  opened.push(client);
  return client;
}

async function ask(client: ControlServiceClient, jobId = 'job-1', timeoutMs = 10_000) {
  const request = { caller: { keySha256: Buffer.alloc(32) }, jobId };
  return (await call(client.getJob.bind(client), request, { timeoutMs })).job?.id;
}

const failureOf = (client: ControlServiceClient): Promise<ServiceError> =>
  ask(client).then(
    (id) => expect.fail(`was answered: ${id}`),
    (error) => error,
  );

const logged = (part: string) => lines.filter((line) => line.includes(part));

describe('a server with certificates', () => {
  const cases = COMPONENTS.filter((each) => CALLERS[each].length > 0).flatMap((server) =>
    COMPONENTS.map((caller) => [caller, server, CALLERS[server].includes(caller)] as const),
  );
  it.each(cases)('is called by the %s: %s lets it in: %s', async (caller, server, allowed) => {
    const serving = await serve(await open(server));
    const client = clientOf(serving, (await open(caller, undefined, 'caller')).to(server));
    if (allowed) return expect(await ask(client)).toBe('job-1');
    const failure = await failureOf(client);
    expect(failure.code).toBe(status.PERMISSION_DENIED);
    expect(failure.details).toContain(CALLERS[server].join(', '));
    expect(failure.details).toContain(`DNS:${nameOf(caller)}`);
    expect(logged(`its certificate is for DNS:${nameOf(caller)}`)).toHaveLength(1);
  });

  it('refuses streams as it refuses calls', async () => {
    const serving = await serve(await open('operator'));
    const stream = clientOf(serving, (await open('agent')).to('operator')).watchJobs();
    const failure = await new Promise<ServiceError>((resolve) => stream.once('error', resolve));
    expect(failure.code).toBe(status.PERMISSION_DENIED);
  });

  it('does not take a name within another for a component', async () => {
    const tricky = await issue('agent', { names: [nameOf('agent'), 'x.gateway.semblance.internal'] });
    const serving = await serve(await open('control-plane'));
    const failure = await failureOf(clientOf(serving, (await open('agent', tricky)).to('control-plane')));
    expect(failure.code).toBe(status.PERMISSION_DENIED);
  });

  it('keeps out who has a certificate of another authority, and says why in its log', async () => {
    const serving = await serve(await open('control-plane'));
    const theirs = await issue('gateway', {}, stranger);
    // Trusts the server, so that it is the server that refuses.
    const own = await open('gateway', theirs);
    await writeFile(join(dir, 'gateway', 'ca.crt'), theirs.authority + authority.pem);
    await expect.poll(() => own.current.authority.toString()).toContain(authority.pem);
    expect((await failureOf(clientOf(serving, own.to('control-plane')))).code).toBe(status.UNAVAILABLE);
    await expect.poll(() => logged('its certificate is not accepted')).not.toEqual([]);
  });

  it('keeps out who presents no certificate, and who does not speak TLS', async () => {
    const serving = await serve(await open('control-plane'));
    expect((await failureOf(clientOf(serving))).code).toBe(status.UNAVAILABLE);
    await expect.poll(() => logged('it does not speak TLS')).not.toEqual([]);

    const { credentials } = await import('@grpc/grpc-js');
    const bare = credentials.createSsl(Buffer.from(authority.pem));
    const options = { 'grpc.ssl_target_name_override': nameOf('control-plane') };
    expect((await failureOf(clientOf(serving, { credentials: bare, options }))).code).toBe(
      status.UNAVAILABLE,
    );
    await expect.poll(() => logged('it presents no certificate')).not.toEqual([]);
  });

  it('ends although somebody is still about to shake hands', async () => {
    const serving = await serve(await open('control-plane'));
    const idle = connectPlain(serving.port, '127.0.0.1');
    await new Promise((resolve) => idle.once('connect', resolve));
    const gone = new Promise((resolve) => idle.once('close', resolve));
    idle.on('error', () => {});
    await serving.close();
    await gone;
    await expect(ask(clientOf(serving, (await open('gateway')).to('control-plane')))).rejects.toMatchObject({
      code: status.UNAVAILABLE,
    });
  });

  it('says which address it could not take', async () => {
    const tls = await open('control-plane');
    const { port } = await serve(tls);
    const again = startGrpcServer({ listen: { host: '127.0.0.1', port }, services: [], tls });
    await expect(again).rejects.toThrow(`cannot listen on 127.0.0.1:${port}`);
  });
});

describe('a client with certificates', () => {
  it('does not speak to a server of another component', async () => {
    const serving = await serve(await open('operator'));
    const failure = await failureOf(clientOf(serving, (await open('control-plane')).to('agent')));
    expect(failure.code).toBe(status.UNAVAILABLE);
    expect(failure.details).toContain(nameOf('agent'));
  });

  it('does not speak to a server of another authority', async () => {
    const serving = await serve(await open('control-plane', await issue('control-plane', {}, stranger)));
    const failure = await failureOf(clientOf(serving, (await open('gateway')).to('control-plane')));
    expect(failure.code).toBe(status.UNAVAILABLE);
    expect(failure.details).toMatch(/issuer|self-signed|verify/);
  });

  it('does not speak to a server without TLS', async () => {
    const plain = await startGrpcServer({ listen: { host: '127.0.0.1', port: 0 }, services: [] });
    const failure = await failureOf(clientOf(plain, (await open('gateway')).to('control-plane')));
    expect(failure.code).toBe(status.UNAVAILABLE);
    // Nor does it keep that server from ending.
    await plain.close(100);
  });
});

describe('a start', () => {
  const write = async (files: Partial<TlsFiles>) => {
    const folder = join(dir, 'agent');
    await mkdir(folder);
    for (const [name, key] of [
      ['tls.crt', 'certificate'],
      ['tls.key', 'key'],
      ['ca.crt', 'authority'],
    ] as const)
      if (files[key] !== undefined) await writeFile(join(folder, name), files[key]);
    return openTls({ dir: folder, component: 'agent', logger, pollMs: POLL_MS });
  };
  const half = (text: string) => text.slice(0, text.length / 2);

  it.each<[string, RegExp, () => Promise<Partial<TlsFiles>>]>([
    [
      'no certificate',
      /tls\.crt is missing/,
      async () => ({ ...(await issue('agent')), certificate: undefined }),
    ],
    ['no key', /tls\.key is missing/, async () => ({ ...(await issue('agent')), key: undefined })],
    ['no authority', /ca\.crt is missing/, async () => ({ ...(await issue('agent')), authority: undefined })],
    [
      'an empty certificate',
      /tls\.crt holds no certificate/,
      async () => ({ ...(await issue('agent')), certificate: '' }),
    ],
    [
      'an empty authority',
      /ca\.crt holds no certificate/,
      async () => ({ ...(await issue('agent')), authority: '' }),
    ],
    [
      'half a certificate',
      /tls\.crt is cut off/,
      async () => {
        const files = await issue('agent');
        return { ...files, certificate: half(files.certificate) };
      },
    ],
    [
      'half a key',
      /tls\.key holds no private key/,
      async () => {
        const files = await issue('agent');
        return { ...files, key: half(files.key) };
      },
    ],
    [
      'a key of another certificate',
      /tls\.key does not belong/,
      async () => ({ ...(await issue('agent')), key: (await issue('agent')).key }),
    ],
    ['one that ended', /tls\.crt ended at/, () => issue('agent', { notBefore: ago(2), notAfter: ago(1) })],
    ['one that has not begun', /tls\.crt begins only at/, () => issue('agent', { notBefore: ago(-1) })],
    [
      'that of another component',
      /tls\.crt is not for DNS:agent\.semblance\.internal; it is for DNS:gateway/,
      () => issue('gateway'),
    ],
    [
      'one for servers alone',
      /must not be used for client auth/,
      () => issue('agent', { purposes: ['server'] }),
    ],
    [
      'one of another authority',
      /not issued by an authority in ca\.crt/,
      async () => ({ ...(await issue('agent')), authority: stranger.pem }),
    ],
    [
      'an authority that ended',
      /ca\.crt ended at/,
      async () => issue('agent', {}, await createAuthority({ notBefore: ago(2), notAfter: ago(1) })),
    ],
  ])('with %s says so', async (_what, message, files) => {
    const failure = await write(await files()).catch((error) => error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect(failure.message).toMatch(message);
    expect(failure.message).toContain('SEMBLANCE_TLS_DIR');
  });

  it('takes several authorities in one file', async () => {
    const files = await issue('agent');
    const tls = await write({ ...files, authority: stranger.pem + files.authority });
    opened.push(tls);
    expect(tls.current.notAfter.getTime()).toBeGreaterThan(Date.now());
  });
});

describe('a renewal', () => {
  /** As a kubelet lays out a Secret: files are links through `..data`, which is replaced at once. */
  async function mount(folder: string, files: TlsFiles, version: number): Promise<void> {
    await writeTlsFiles(join(folder, `..${version}`), files);
    await symlink(`..${version}`, join(folder, '..data.new'));
    await rename(join(folder, '..data.new'), join(folder, '..data'));
    if (version > 1) return;
    for (const name of ['tls.crt', 'tls.key', 'ca.crt'])
      await symlink(join('..data', name), join(folder, name));
  }

  it('reaches new connections of both ends without a failed call, while open ones go on', async () => {
    const sides = ['control-plane', 'gateway'] as const;
    for (const side of sides) await mount(join(dir, side), await issue(side), 1);
    const [server, client] = await Promise.all(
      sides.map(async (component) => {
        const tls = await openTls({ dir: join(dir, component), component, logger, pollMs: POLL_MS });
        opened.push(tls);
        return tls;
      }),
    );
    const serving = await serve(server as Tls);
    const to = (client as Tls).to('control-plane');
    const stream = clientOf(serving, to).watchJobs();
    let echoes = 0;
    stream.on('data', () => echoes++);

    let [calls, running] = [0, true];
    const load = Array.from({ length: 4 }, async (_, lane) => {
      while (running) {
        // A connection of its own for each call: the options differ.
        const options = { ...to.options, 'grpc.primary_user_agent': `lane ${lane} call ${calls}` };
        const one = createClient(ControlServiceClient, `127.0.0.1:${serving.port}`, undefined, {
          ...to,
          options,
        });
        expect(await ask(one, `job-${calls}`)).toMatch(/^job-/);
        one.close();
        calls++;
      }
    });
    // The new authority is trusted by both before any certificate is of it; then the old one is forgotten.
    const next = await createAuthority();
    const rounds: ((side: Component) => Promise<TlsFiles>)[] = [
      (side) => issue(side),
      async (side) => ({ ...(await issue(side)), authority: authority.pem + next.pem }),
      async (side) => ({ ...(await issue(side, {}, next)), authority: authority.pem + next.pem }),
      (side) => issue(side, {}, next),
    ];
    for (const [i, files] of rounds.entries()) {
      const before = calls;
      for (const side of sides) await mount(join(dir, side), await files(side), i + 2);
      await expect.poll(() => logged('was renewed')).toHaveLength(2 * (i + 1));
      await expect.poll(() => calls).toBeGreaterThan(before + 8);
      const heard = echoes;
      stream.write({ request: { $case: 'close', value: 1 } });
      await expect.poll(() => echoes).toBe(heard + 1);
    }
    running = false;
    await Promise.all(load);
    stream.cancel();
    stream.on('error', () => {});

    // Who knows the former authority alone is not let in any more.
    const former = await open('gateway', await issue('gateway'), 'former');
    await writeFile(join(dir, 'former', 'ca.crt'), authority.pem + next.pem);
    await expect.poll(() => former.current.authority.toString()).toContain(next.pem);
    expect((await failureOf(clientOf(serving, former.to('control-plane')))).code).toBe(status.UNAVAILABLE);
  });

  it.each([
    ['tls.crt', 'is cut off'],
    ['tls.key', 'holds no private key'],
    ['ca.crt', 'is cut off'],
  ])(
    'that finds half of %s keeps what was, says so once, and goes on when it is whole',
    async (name, why) => {
      const tls = await open('control-plane');
      const former = tls.current;
      const serving = await serve(tls);
      const gateway = await open('gateway');
      const client = clientOf(serving, gateway.to('control-plane'));
      const files = await issue('control-plane');
      const text =
        { 'tls.crt': files.certificate, 'tls.key': files.key, 'ca.crt': files.authority }[name] ?? '';
      // At once: a file that is written in place is empty for a moment, which is another fault.
      await writeAtomically(join(dir, 'control-plane', name), text.slice(0, text.length / 2));
      await expect.poll(() => logged('cannot be renewed')).toHaveLength(1);
      expect(logged('cannot be renewed')[0]).toContain(`${name} ${why}`);
      expect(tls.current).toBe(former);
      expect(await ask(client)).toBe('job-1');

      await writeTlsFiles(join(dir, 'control-plane'), files);
      await expect.poll(() => tls.current.certificate.toString()).toBe(files.certificate);
      expect(logged('cannot be renewed').length).toBeLessThanOrEqual(2);
      const later = createClient(ControlServiceClient, `127.0.0.1:${serving.port}`, undefined, {
        ...gateway.to('control-plane'),
        options: { ...gateway.to('control-plane').options, 'grpc.primary_user_agent': 'later' },
      });
      opened.push(later);
      expect(await ask(later)).toBe('job-1');
    },
  );

  it('by one that has ended, or is for another component, changes nothing', async () => {
    const tls = await open('agent');
    const former = tls.current;
    await writeTlsFiles(join(dir, 'agent'), await issue('agent', { notBefore: ago(2), notAfter: ago(1) }));
    await expect.poll(() => logged('ended at')).not.toEqual([]);
    await writeTlsFiles(join(dir, 'agent'), await issue('operator'));
    await expect.poll(() => logged('it is for DNS:operator')).not.toEqual([]);
    expect(tls.current).toBe(former);
  });
});

describe('the end of a certificate', () => {
  it('is a metric, and fails the check once it has passed', async () => {
    const end = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + DAY_MS / 2);
    const tls = await open('agent', await issue('agent', { notAfter: end }));
    const registry = new Registry();
    observeExpiry(registry, tls);
    const { certificate } = expiryCheck(tls);
    certificate?.();
    expect(await registry.metrics()).toContain(
      `semblance_tls_certificate_not_after_seconds{file="tls.crt"} ${end.getTime() / 1_000}`,
    );
    vi.useFakeTimers({ toFake: ['Date'], now: end.getTime() + 1 });
    try {
      expect(certificate).toThrow(/the certificate between services ended at/);
    } finally {
      vi.useRealTimers();
    }
  });

  it('is named and without a value where there is no TLS', async () => {
    const registry = new Registry();
    observeExpiry(registry, undefined);
    expect(await registry.metrics()).not.toContain('file=');
    expect(await registry.metrics()).toContain('# TYPE semblance_tls_certificate_not_after_seconds gauge');
    expect(expiryCheck(undefined)).toEqual({});
  });
});

afterAll(() => expect(opened).toEqual([]));
