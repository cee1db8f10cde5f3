import { createPrivateKey, X509Certificate } from 'node:crypto';
import { COMPONENTS, nameOf } from '@semblance/common/grpc/tls/components';
import { checkMaterial } from '@semblance/common/grpc/tls/material';
import type { KubeClient } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { client, namespace } from '@semblance/testkit/operator/chart';
import { beforeEach, describe, expect, it } from 'vitest';
import { renewCertificates, SECRETS } from './certificates.ts';

const DAY_MS = 86_400_000;
const HOLDERS = COMPONENTS.filter((component) => component !== 'agent');
let count = 0;
let fullname: string;
const nameIn = (component: string) => ({ namespace, name: `${fullname}-${component}-certificate` });

beforeEach(async () => {
  fullname = `rel-${++count}`;
  // As the chart makes them.
  for (const component of COMPONENTS) await client.create(SECRETS, { metadata: { ...nameIn(component) } });
});

const times = (days: number, lifetimeDays = 90) => ({
  namespace,
  fullname,
  lifetimeMs: lifetimeDays * DAY_MS,
  renewBeforeMs: 30 * DAY_MS,
  spreadMs: 20,
  logger: silentLogger(),
  now: () => Date.now() + days * DAY_MS,
});
const renew = (days = 0, own: Pick<KubeClient, 'get' | 'mergePatch'> = client, lifetimeDays = 90) =>
  renewCertificates({ ...times(days, lifetimeDays), client: own });

async function held() {
  const secrets = await Promise.all(COMPONENTS.map((component) => client.get(SECRETS, nameIn(component))));
  return Object.fromEntries(
    COMPONENTS.map((component, i) => {
      const bytes = (key: string) => Buffer.from(secrets[i]?.data?.[key] ?? '', 'base64');
      return [
        component,
        { certificate: bytes('tls.crt'), key: bytes('tls.key'), authority: bytes('ca.crt') },
      ];
    }),
  );
}
const leafOf = (files: { certificate: Buffer } | undefined) => new X509Certificate(files?.certificate ?? '');

/** Expects that each certificate that there is can be used, and is accepted by all. */
async function expectAccepted(days = 0): Promise<void> {
  const now = new Date(Date.now() + days * DAY_MS);
  const all = await held();
  for (const component of HOLDERS) {
    const files = all[component];
    if (!files?.certificate.length) continue;
    checkMaterial(files, nameOf(component), now);
    for (const other of COMPONENTS)
      checkMaterial(
        { ...files, authority: all[other]?.authority ?? Buffer.alloc(0) },
        nameOf(component),
        now,
      );
  }
}

/** A client after whose writes something is done; `left` writes succeed. */
const watched = (after: () => Promise<void>, left = Number.POSITIVE_INFINITY) => {
  let writes = 0;
  return {
    get: client.get.bind(client),
    mergePatch: async (...args: Parameters<KubeClient['mergePatch']>) => {
      if (++writes > left) throw new Error('killed');
      const made = await client.mergePatch(...args);
      await after();
      return made;
    },
  } as Pick<KubeClient, 'get' | 'mergePatch'>;
};

describe('certificates of an installation', () => {
  it('are made where there are none, for each its own, and no key of an authority is left anywhere', async () => {
    expect(await renew()).toBe('made');
    await expectAccepted();
    const all = await held();
    for (const component of HOLDERS) {
      const leaf = leafOf(all[component]);
      expect(leaf.ca).toBe(false);
      expect(Math.round((leaf.validToDate.getTime() - Date.now()) / DAY_MS)).toBe(90);
      const authority = new X509Certificate(all[component]?.authority ?? '');
      for (const { key } of HOLDERS.map((each) => all[each] ?? { key: '' }))
        expect(authority.checkPrivateKey(createPrivateKey(key))).toBe(false);
    }
    expect(all.agent?.certificate.length).toBe(0);
    expect(all.agent?.key.length).toBe(0);
    const keys = new Set(HOLDERS.map((component) => all[component]?.key.toString()));
    expect(keys.size).toBe(HOLDERS.length);
    for (const { metadata, data } of (await client.list(SECRETS, { namespace })).items)
      expect(
        Object.keys(data ?? {}).filter((key) => !/^(tls\.crt|tls\.key|ca\.crt)$/.test(key)),
        metadata.name,
      ).toEqual([]);
  });

  it('stay as long as they last, and a second run changes nothing', async () => {
    await renew();
    const before = await held();
    expect(await renew()).toBe('kept');
    expect(await renew(59)).toBe('kept');
    expect(await held()).toEqual(before);
  });

  it('are renewed before they end, and each is accepted by all at every moment', async () => {
    await renew();
    const before = await held();
    let moments = 0;
    const each = async () => {
      moments++;
      await expectAccepted(61);
    };
    // While the authorities are given out, certificates stay.
    expect(await renew(61, watched(each))).toBe('renewed');
    expect(moments).toBe(COMPONENTS.length + HOLDERS.length);
    const after = await held();
    for (const component of HOLDERS) {
      expect(leafOf(after[component]).validToDate.getTime()).toBeGreaterThan(
        leafOf(before[component]).validToDate.getTime() + 50 * DAY_MS,
      );
      expect(after[component]?.authority.toString().match(/BEGIN CERT/g)).toHaveLength(2);
    }
    // The former authority goes with the next renewal.
    expect(await renew(122)).toBe('renewed');
    expect((await held()).agent?.authority.toString().match(/BEGIN CERT/g)).toHaveLength(2);
    await expectAccepted(122);
  });

  it.each([0, 1, 2, 3, 4, 5, 6])(
    'are accepted by all when a renewal dies after %d writes, and the next mends it',
    async (left) => {
      await renew();
      const dead = watched(() => expectAccepted(61), left);
      await expect(renew(61, dead)).rejects.toThrow('killed');
      await expectAccepted(61);
      expect(await renew(62)).toBe('renewed');
      await expectAccepted(62);
      expect(await renew(62)).toBe('kept');
    },
  );

  it.each([0, 1, 2, 3])('are whole in the end when the first run dies after %d writes', async (left) => {
    await expect(
      renew(
        0,
        watched(async () => {}, left),
      ),
    ).rejects.toThrow('killed');
    // The retry comes at once, as that of a Job.
    expect(await renew()).toMatch(/^(made|renewed)$/);
    await expectAccepted();
    for (const component of HOLDERS) expect((await held())[component]?.certificate.length).toBeGreaterThan(0);
    expect(await renew()).toBe('kept');
  });

  it('are renewed by one run alone when two come at once', async () => {
    await renew();
    const ends = await Promise.allSettled([renew(61), renew(61)]);
    const said = ends.map((end) => (end.status === 'fulfilled' ? end.value : end.reason.code));
    expect(said.filter((each) => each === 'renewed')).toHaveLength(1);
    expect(said.find((each) => each !== 'renewed')).toMatch(/^(conflict|kept)$/);
    await expectAccepted(61);
    expect(await renew(61)).toBe('kept');
  });

  it('are left to a run that gave its authority out a moment ago, until that must be dead', async () => {
    await renew();
    const dying = { ...times(61), client: watched(async () => {}, 4), spreadMs: 1_000 };
    await expect(renewCertificates(dying)).rejects.toThrow('killed');
    const before = await held();
    let looks = 0;
    const counting = {
      ...client,
      get: (...args: Parameters<KubeClient['get']>) => {
        looks++;
        return client.get(...args);
      },
    };
    const begun = performance.now();
    const waiting = renewCertificates({ ...times(61), client: counting as KubeClient, spreadMs: 1_000 });
    await expect.poll(() => looks).toBeGreaterThan(2 * COMPONENTS.length);
    expect(await held()).toEqual(before);
    expect(await waiting).toBe('renewed');
    expect(performance.now() - begun).toBeGreaterThan(1_500);
    await expectAccepted(61);
  });

  it.each([
    ['is empty', {}],
    [
      'has half a certificate',
      { 'tls.crt': Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA').toString('base64') },
    ],
    ['has the key of another', { 'tls.key': 'other' }],
  ])('are mended where a Secret %s', async (_what, data) => {
    await renew();
    const others = await held();
    const patched = Object.fromEntries(
      Object.entries(data).map(([key, value]) => [
        key,
        value === 'other' ? others['control-plane']?.key.toString('base64') : value,
      ]),
    );
    const emptied = Object.keys(patched).length
      ? patched
      : { 'tls.crt': null, 'tls.key': null, 'ca.crt': null };
    await client.mergePatch(SECRETS, nameIn('gateway'), { data: emptied });
    expect(await renew()).toBe('renewed');
    await expectAccepted();
    expect((await held()).gateway?.certificate.length).toBeGreaterThan(0);
  });

  it('are made anew at once when all have ended, and when they last longer than they should', async () => {
    await renew();
    expect(await renew(100)).toBe('made');
    await expectAccepted(100);
    expect(await renew(100, client, 40)).toBe('renewed');
    expect(leafOf((await held()).operator).validToDate.getTime()).toBeLessThan(Date.now() + 141 * DAY_MS);
  });

  it('are missing with a reason where the chart made no Secret', async () => {
    await client.delete(SECRETS, nameIn('operator'));
    await expect(renew()).rejects.toMatchObject({ code: 'not_found' });
  });
});
