import { rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { writeAtomically } from '@semblance/local/process/write-atomically';
import { writeTlsFiles } from '@semblance/local/stack/service-certificates';
import { ControlServiceClient } from '@semblance/proto/semblance/control/v1/control';
import {
  ago,
  ask,
  authority,
  clientOf,
  DAY_MS,
  dir,
  failureOf,
  issue,
  logged,
  logger,
  open,
  opened,
  POLL_MS,
  serve,
} from '@semblance/testkit/grpc/tls';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { createClient } from '../client.ts';
import { createAuthority, type TlsFiles } from './authority.ts';
import type { Component } from './components.ts';
import { expiryCheck, observeExpiry } from './expiry.ts';
import { openTls, type Tls } from './tls.ts';

describe('a renewal', () => {
  /** Lays out files as a kubelet lays out a Secret: they are links through `..data`, which is replaced atomically. */
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
        // The options differ, so each call opens a connection of its own.
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
    // Both sides trust the new authority before either has a certificate of it. Then both drop the old authority.
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
      await expect.poll(() => logged('renewed the certificate')).toHaveLength(2 * (i + 1));
      await expect.poll(() => calls).toBeGreaterThan(before + 8);
      const heard = echoes;
      stream.write({ request: { $case: 'close', value: 1 } });
      await expect.poll(() => echoes).toBe(heard + 1);
    }
    running = false;
    await Promise.all(load);
    stream.cancel();
    stream.on('error', () => {});

    // A client with a certificate of the former authority is refused.
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
      // The write is atomic because a file written in place is empty for a moment, which is another fault.
      await writeAtomically(join(dir, 'control-plane', name), text.slice(0, text.length / 2));
      await expect.poll(() => logged('cannot renew the certificate')).toHaveLength(1);
      expect(logged('cannot renew the certificate')[0]).toContain(`${name} ${why}`);
      expect(tls.current).toBe(former);
      expect(await ask(client)).toBe('job-1');

      await writeTlsFiles(join(dir, 'control-plane'), files);
      await expect.poll(() => tls.current.certificate.toString()).toBe(files.certificate);
      expect(logged('cannot renew the certificate').length).toBeLessThanOrEqual(2);
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
