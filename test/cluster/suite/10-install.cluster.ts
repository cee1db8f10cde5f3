import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { expect, test } from 'vitest';
import { helm, install, makeNamespace, pods, RELEASE, withApi } from './release.ts';

test('helm install with nothing set but images, under restricted Pod Security', async () => {
  await makeNamespace();
  await install();
  for (const component of ['gateway', 'control-plane', 'operator', 'agent'])
    expect((await pods(component)).length, component).toBeGreaterThan(0);
});

test('helm test', async () => {
  const said = await helm(['test', RELEASE, '--logs', '--timeout', '5m']);
  expect(said).toMatch(/Phase:\s+Succeeded/);
});

test('a photo is swapped through the Service', async () => {
  await withApi(async (api) => {
    const [image, face] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
    const job = await api.finished((await api.swap({ image_key: image, face_key: face })).id);
    expect(job).toMatchObject({ status: 'succeeded', error: null });
    expect(job.charged_usd).toBeGreaterThan(0);
    // The link names the origin that the owner set for clients; the test reaches it at another port.
    const link = new URL(job.output_url ?? '');
    const output = await fetch(new URL(link.pathname + link.search, api.baseUrl));
    expect(output.status).toBe(200);
    expect(output.headers.get('content-type')).toMatch(/^image\//);
    expect((await output.arrayBuffer()).byteLength).toBeGreaterThan(10_000);
  });
});
