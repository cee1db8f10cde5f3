import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { installRights } from '@semblance/testkit/chart/rights';
import { testKube } from '@semblance/testkit/servers/shared';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expect, it } from 'vitest';

const job = (name: string, namespace: string) => ({
  apiVersion: 'semblance.dev/v1alpha1',
  kind: 'RenderJob',
  metadata: { name, namespace },
  spec: {
    capability: 'face-swap-image',
    inputs: [
      { name: 'image', key: 'api/own/base.jpg' },
      { name: 'face', key: 'api/own/face.jpg' },
    ],
  },
});

it('warns who creates a job in a namespace that the operator does not watch, and creates it', async () => {
  const rights = await installRights();
  const other = await testKube();
  const { kubectl } = await resolveTools(['kubectl']);
  const create = (name: string, namespace: string) => {
    const made = promisify(execFile)(kubectl, ['create', '-f', '-'], {
      env: { PATH: process.env.PATH, HOME: '/nonexistent', KUBECONFIG: rights.kubeconfigPath },
    });
    made.child.stdin?.end(JSON.stringify(job(name, namespace)));
    return made;
  };
  let serial = 0;
  const { stdout, stderr } = await eventually('the policy to be in force', async () => {
    const said = await create(`elsewhere-${++serial}`, other.namespace);
    return said.stderr.includes(`operator in namespace ${rights.namespace}`) ? said : undefined;
  });
  expect(stdout).toMatch(/^renderjob.semblance.dev\/elsewhere-\d+ created$/m);
  expect(stderr.replace(/\s+/g, ' ')).toContain(
    `the operator in namespace ${rights.namespace} does not watch namespace ${other.namespace}: unless another ` +
      'installation does, nothing happens to this RenderJob',
  );
  // Policies of other tests at this API may speak of theirs.
  expect((await create('watched', rights.namespace)).stderr).not.toContain(
    `namespace ${rights.namespace} does`,
  );
  await other.close();
  await rights.close();
});
