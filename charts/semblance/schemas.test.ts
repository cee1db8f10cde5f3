/** @module-tag go */

import {
  find,
  type Manifest,
  podsOf,
  render,
  VALUE_FILES,
  type ValueFile,
} from '@semblance/testkit/chart/chart';
import { moduleFiles } from '@semblance/testkit/chart/module-files';
import {
  FOREIGN_CRDS,
  KUBERNETES,
  MINORS,
  type Validator,
  validatorOf,
} from '@semblance/testkit/chart/schemas';
import { beforeAll, describe, expect, it } from 'vitest';

/** API groups outside Kubernetes. install.test.ts has an API server with their CRDs validate them. */
const FOREIGN = /^(monitoring\.coreos\.com|cert-manager\.io|gateway\.networking\.k8s\.io|semblance\.dev)\//;

/** Returns what the chart renders for a minor version, and the resulting Pods, including those of pools. */
async function objects(file: ValueFile | undefined, kubeVersion: string): Promise<Manifest[]> {
  const rendered = await render(file, {}, kubeVersion);
  const pods = podsOf(rendered).map(({ from, template: { spec, metadata } }) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    spec,
    metadata: { ...metadata, name: from.toLowerCase().replaceAll(/\W+/g, '-') },
  }));
  return [...rendered.filter(({ apiVersion }) => !FOREIGN.test(apiVersion)), ...pods];
}

it('schemas other than those that are pinned are not taken', async () => {
  const [certificates] = FOREIGN_CRDS;
  if (!certificates) throw new Error('there are none');
  await expect(moduleFiles({ ...certificates, sum: 'h1:another' })).rejects.toThrow(
    'h1:another was expected',
  );
});

describe.each(MINORS)('by the schemas of Kubernetes %s', (minor) => {
  let validator: Validator;
  beforeAll(async () => {
    validator = await validatorOf(minor);
  });

  it.each([undefined, ...VALUE_FILES])(
    'the chart has no unknown field and no wrong one (%s)',
    async (file) => {
      const checked = await objects(file, KUBERNETES[minor].version);
      expect(checked.length).toBeGreaterThan(20);
      for (const each of checked)
        expect(await validator.faults(each), `${each.kind} ${each.metadata.name}`).toEqual([]);
    },
  );

  it('a field that came with a later minor, or went, is unknown', async () => {
    const [pod] = (await objects('plain', KUBERNETES[minor].version)).filter(({ kind }) => kind === 'Pod');
    const known = await Promise.all(
      ['nodeName', 'workloadRef', 'schedulingGroup'].map(async (field) => {
        const faults = await validator.faults({ ...pod, spec: { ...pod?.spec, [field]: null } } as Manifest);
        return faults.some((fault) => fault.includes('additional properties')) ? [] : [field];
      }),
    );
    expect(known.flat()).toEqual(
      {
        '1.34': ['nodeName'],
        '1.35': ['nodeName', 'workloadRef'],
        '1.36': ['nodeName', 'schedulingGroup'],
      }[minor],
    );
  });

  it('what is wrong is found, however deep', async () => {
    const deployment = find(await render(), 'Deployment', 'rel-semblance-gateway');
    const changed = (change: (copy: Manifest) => void) => {
      const copy = structuredClone(deployment) as Manifest;
      change(copy);
      return validator.faults(copy);
    };
    const container = ({ spec }: Manifest) => spec.template.spec.containers[0];
    expect(await changed(() => {})).toEqual([]);
    expect(await changed((copy) => Object.assign(container(copy), { readinesProbe: {} }))).toEqual([
      '/spec/template/spec/containers/0 must NOT have additional properties {"additionalProperty":"readinesProbe"}',
    ]);
    expect(
      await changed((copy) => Object.assign(container(copy).ports[0], { containerPort: '8080' })),
    ).toEqual(['/spec/template/spec/containers/0/ports/0/containerPort must be integer {"type":"integer"}']);
    expect(await changed(({ spec }) => delete spec.selector)).toEqual([
      '/spec must have required property \'selector\' {"missingProperty":"selector"}',
    ]);
    expect(await validator.faults({ ...deployment, apiVersion: 'apps/v1beta2' })).toEqual([
      `Kubernetes ${minor} has no Deployment of apps/v1beta2`,
    ]);
    expect(await validator.faults({ ...deployment, kind: 'Deploymint' })).toEqual([
      `Kubernetes ${minor} has no Deploymint of apps/v1`,
    ]);
  });
});
