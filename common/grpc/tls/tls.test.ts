import { mkdir, writeFile } from 'node:fs/promises';
import { connect as connectPlain } from 'node:net';
import { join } from 'node:path';
import { type ServiceError, status } from '@grpc/grpc-js';
import {
  ago,
  ask,
  authority,
  clientOf,
  dir,
  failureOf,
  issue,
  logged,
  logger,
  open,
  opened,
  POLL_MS,
  serve,
  stranger,
} from '@semblance/testkit/grpc/tls';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../config.ts';
import { startGrpcServer } from '../server.ts';
import { createAuthority, type TlsFiles } from './authority.ts';
import { CALLERS, COMPONENTS, nameOf } from './components.ts';
import { openTls } from './tls.ts';

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
    // The client trusts the server, so the server must be the one that refuses.
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
    // The failed connection must not keep that server from ending.
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
