/**
 * @module-tag ffmpeg
 * @module-tag python
 */
import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { signingCertificate } from '@semblance/local/stack/signing-certificate';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { type CheckService, startCheckService } from '@semblance/testkit/content-check/check-service';
import { createHarness, type Harness, until } from '@semblance/testkit/gpu-agent/harness';
import { PICTURE_ENGINE } from '@semblance/testkit/gpu-agent/picture-engine';
import { readerPython, readManifests } from '@semblance/testkit/provenance/read-manifest';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

const {
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_FAILED: FAILED,
  ATTEMPT_STATE_INTERRUPTED: INTERRUPTED,
} = AttemptState;
const PORTRAIT = join(import.meta.dirname, '../media/astronaut.png');

let harness: Harness;
let service: CheckService;
beforeAll(async () => {
  harness = await createHarness();
  service = await startCheckService();
  harness.store.objects.set('/in/image', await readFile(PORTRAIT));
  await readerPython();
}, 180_000);
afterEach(() => harness.closeAgents());
afterAll(async () => {
  await service.close();
  await harness.close();
});

/** Starts an agent with one slot whose engine makes pictures. */
async function agentWith(env: NodeJS.ProcessEnv, marks = false) {
  const agent = await harness.agent({
    env: { SEMBLANCE_AGENT_SLOTS: '1', ...env },
    engines: [PICTURE_ENGINE],
    ...(marks ? { provenance: undefined } : {}),
  });
  await until(async () => (await agent.resource())?.status?.slots === 1, 'the engine is warm');
  const watch = agent.watch();
  return {
    ...agent,
    async run(mode = 'ok') {
      const request = agent.request(mode);
      let stored: Buffer | undefined;
      harness.store.on(`/out/${request.ref?.jobUid}`, async (incoming, response) => {
        const chunks: Uint8Array[] = [];
        for await (const chunk of incoming) chunks.push(chunk as Uint8Array);
        stored = Buffer.concat(chunks);
        response.writeHead(200).end();
      });
      await agent.start(request);
      const ended = await watch.ended(request.ref, 30_000);
      expect(await agent.leftovers()).toEqual([]);
      await agent.acknowledge(request.ref);
      return { ended, stored, request };
    },
  };
}
const asking = (more: NodeJS.ProcessEnv = {}) =>
  agentWith({ SEMBLANCE_CONTENT_CHECK: 'http', SEMBLANCE_CONTENT_CHECK_URL: service.url, ...more });

describe('a content check', () => {
  it('that is not configured is said not to be', async () => {
    const agent = await agentWith({});
    expect((await agent.resource())?.status?.contentCheck).toEqual({
      checks: ['allow-all'],
      allowsUnchecked: false,
      message: 'No content check: whatever comes is rendered.',
    });
    expect((await agent.run()).ended.state).toBe(SUCCEEDED);
    const figure = await agent.figures();
    expect(figure('content_checks_total', 'check="allow-all"', 'phase="input"', 'result="allowed"')).toBe(1);
  });

  it('looks at inputs before and at the output after, and lets through what it allows', async () => {
    service.answer([]);
    const agent = await asking();
    const { ended, stored, request } = await agent.run();
    expect(ended.state).toBe(SUCCEEDED);
    expect(service.asked.map(({ request: { phase, job, files } }) => ({ phase, job, files }))).toMatchObject([
      { phase: 'input', job: request.jobName, files: [{ role: 'image' }, { role: 'face' }] },
      { phase: 'output', job: request.jobName, files: [{ role: 'output', content_type: 'image/png' }] },
    ]);
    expect(service.asked[1]?.files.output?.bytes.equals(stored as Buffer)).toBe(true);
    expect((await agent.resource())?.status?.contentCheck).toMatchObject({
      checks: ['http'],
      message: expect.stringContaining('the service at 127.0.0.1'),
    });
  });

  it.each(['input', 'output'])(
    'that rejects the %s fails the job with its reason, and stores nothing',
    async (phase) => {
      service.answer(({ request }) =>
        request.phase === phase ? { body: '{"verdict":"reject","reason":"Not of this person."}' } : {},
      );
      const agent = await asking();
      const { ended, stored } = await agent.run();
      expect(ended).toMatchObject({
        state: FAILED,
        output: undefined,
        failure: { code: 'content_rejected', message: 'Not of this person.' },
      });
      expect(stored).toBeUndefined();
      expect(service.asked).toHaveLength(phase === 'input' ? 1 : 2);
      const figure = await agent.figures();
      expect(figure('content_checks_total', `phase="${phase}"`, 'result="rejected"')).toBe(1);
    },
  );

  it('that cannot be made interrupts the attempt, to be tried again', async () => {
    service.answer(() => ({ status: 401 }));
    const agent = await asking();
    const { ended, stored } = await agent.run();
    expect(ended).toMatchObject({
      state: INTERRUPTED,
      failure: { code: 'processing_failed', message: 'A content check did not work.' },
    });
    expect(stored).toBeUndefined();
    const figure = await agent.figures();
    expect(figure('content_checks_total', 'result="failed"')).toBe(1);
  });

  it('that cannot be made lets through where its owner said so, which is told and counted', async () => {
    service.answer(() => ({ status: 401 }));
    const agent = await asking({ SEMBLANCE_CONTENT_CHECK_FAILED: 'allow' });
    expect((await agent.run()).ended.state).toBe(SUCCEEDED);
    expect((await agent.resource())?.status?.contentCheck?.allowsUnchecked).toBe(true);
    const figure = await agent.figures();
    expect(figure('content_checks_total', 'phase="output"', 'result="failed"')).toBe(1);
  });
});

describe('an output', () => {
  it('is stored with a manifest that the reader of the C2PA project trusts', async () => {
    const certificate = await signingCertificate(join(harness.dir, 'certificate'));
    const agent = await agentWith(
      {
        SEMBLANCE_PROVENANCE_CERTIFICATE: certificate.certificateFile,
        SEMBLANCE_PROVENANCE_KEY: certificate.keyFile,
      },
      true,
    );
    expect((await agent.resource())?.status?.provenance).toMatchObject({
      manifests: true,
      signedBy: 'Semblance local stack',
      notAfter: expect.stringMatching(/^\d{4}-/),
    });
    const { ended, stored = Buffer.alloc(0) } = await agent.run();
    expect(ended).toMatchObject({
      state: SUCCEEDED,
      output: {
        sizeBytes: BigInt(stored.length),
        sha256Hex: createHash('sha256').update(stored).digest('hex'),
        milliUnits: 1000n,
      },
    });
    const file = join(harness.dir, 'stored.png');
    await writeFile(file, stored);
    expect(await readManifests(certificate.authorityFile, [file])).toMatchObject([
      { read: { validation_state: 'Trusted' } },
    ]);

    // An output that cannot be marked is not stored, whatever type the engine stated.
    harness.store.objects.set('/in/image', Buffer.from('no picture'));
    const garbage = await agent.run('copy');
    expect(garbage.ended).toMatchObject({ state: FAILED, failure: { code: 'processing_failed' } });
    expect(garbage.stored).toBeUndefined();
    harness.store.objects.set('/in/image', await readFile(PORTRAIT));

    await rename(certificate.keyFile, `${certificate.keyFile}.away`);
    const unsigned = await agent.run();
    expect(unsigned.ended).toMatchObject({
      state: INTERRUPTED,
      failure: { message: 'The signing of the result did not work.' },
    });
    expect(unsigned.stored).toBeUndefined();
    await until(
      async () => (await agent.resource())?.status?.provenance?.manifests === false,
      'the status says that outputs cannot be signed',
    );
    await rename(`${certificate.keyFile}.away`, certificate.keyFile);
    expect((await agent.run()).ended.state).toBe(SUCCEEDED);
    await until(
      async () => (await agent.resource())?.status?.provenance?.manifests === true,
      'and can again',
    );
  });

  it('says by metadata alone what it is where no certificate is configured, and the status says so', async () => {
    const agent = await agentWith({}, true);
    expect((await agent.resource())?.status?.provenance).toEqual({
      manifests: false,
      message:
        'Outputs carry the IPTC source type in XMP. C2PA manifests are off: no certificate is configured.',
    });
    const { stored } = await agent.run();
    expect(stored?.includes('digitalsourcetype/compositeWithTrainedAlgorithmicMedia')).toBe(true);
    expect(stored?.includes('caBX')).toBe(false);
  });
});
