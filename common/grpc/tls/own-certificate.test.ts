import { X509Certificate } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import {
  ask,
  authority,
  clientOf,
  dir,
  failureOf,
  issue,
  logger,
  open,
  opened,
  POLL_MS,
  serve,
  stranger,
} from '@semblance/testkit/grpc/tls';
import { describe, expect, it } from 'vitest';
import { createOwnCertificate } from './own-certificate.ts';
import { openTls, type Tls } from './tls.ts';

/** Opens the TLS of an agent that made its certificate itself: only the authorities are in its folder. */
async function ownAgent(): Promise<Tls> {
  const folder = join(dir, 'agent');
  const { mkdir } = await import('node:fs/promises');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'ca.crt'), authority.pem);
  const own = await createOwnCertificate('agent');
  const tls = await openTls({ dir: folder, component: 'agent', own, logger, pollMs: POLL_MS });
  opened.push(tls);
  return tls;
}
const certificateOf = (tls: Tls) => tls.current.certificate.toString();

describe('an agent with a certificate of its own', () => {
  it('is reached by those who know exactly that certificate, and checks theirs by the authority', async () => {
    const agent = await ownAgent();
    const serving = await serve(agent);
    const operator = await open('operator');
    expect(await ask(clientOf(serving, operator.to('agent', certificateOf(agent))))).toBe('job-1');

    const stray = await open('operator', await issue('operator', {}, stranger), 'stray');
    const failure = await failureOf(clientOf(serving, stray.to('agent', certificateOf(agent))));
    expect(failure.code).toBe(status.UNAVAILABLE);
    const noCaller = await open('agent', undefined, 'caller');
    expect((await failureOf(clientOf(serving, noCaller.to('agent', certificateOf(agent))))).code).toBe(
      status.PERMISSION_DENIED,
    );
  });

  it('cannot pass for another agent, nor for one of the authority', async () => {
    const rogue = await ownAgent();
    const serving = await serve(rogue);
    const operator = await open('operator');
    const other = await createOwnCertificate('agent');
    const failure = await failureOf(clientOf(serving, operator.to('agent', other.certificate.toString())));
    expect(failure.code).toBe(status.UNAVAILABLE);
    expect((await failureOf(clientOf(serving, operator.to('agent')))).code).toBe(status.UNAVAILABLE);
  });

  it('cannot be another component with it', async () => {
    const folder = join(dir, 'agent');
    await ownAgent();
    const own = await createOwnCertificate('agent');
    const asOperator = await openTls({ dir: folder, component: 'operator', own, logger });
    opened.push(asOperator);
    const plane = await serve(await open('control-plane'));
    expect((await failureOf(clientOf(plane, asOperator.to('control-plane')))).code).toBe(status.UNAVAILABLE);
  });

  it.each([
    '',
    'no certificate',
    '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    'x'.repeat(4096),
  ])('that states %j harms no caller', async (stated) => {
    const serving = await serve(await ownAgent());
    const operator = await open('operator');
    const client = clientOf(serving, operator.to('agent', stated));
    expect((await failureOf(client)).code).toBeGreaterThan(0);
  });

  it('goes on with its certificate when the authority is replaced, and takes callers of the new one', async () => {
    const agent = await ownAgent();
    const serving = await serve(agent);
    const before = certificateOf(agent);
    await writeFile(join(dir, 'agent', 'ca.crt'), stranger.pem);
    await expect.poll(() => agent.current.authority.toString()).toBe(stranger.pem);
    const operator = await open('operator', await issue('operator', {}, stranger));
    expect(await ask(clientOf(serving, operator.to('agent', before)))).toBe('job-1');
    // Without a file the former authority stays.
    await rm(join(dir, 'agent', 'ca.crt'));
    expect(await ask(clientOf(serving, operator.to('agent', certificateOf(agent))))).toBe('job-1');
  });

  it('has a key that no other process has, and a certificate for servers alone', async () => {
    const [one, two] = await Promise.all([createOwnCertificate('agent'), createOwnCertificate('agent')]);
    expect(one.key.equals(two.key)).toBe(false);
    const read = new X509Certificate(one.certificate);
    expect([read.ca, read.subjectAltName, read.keyUsage]).toEqual([
      false,
      'DNS:agent.semblance.internal',
      ['1.3.6.1.5.5.7.3.1'],
    ]);
  });
});
