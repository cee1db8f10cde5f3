import { writeFile } from 'node:fs/promises';
import {
  BODY,
  failure,
  IMPATIENT,
  impatiently,
  useTransferRig,
} from '@semblance/testkit/gpu-agent/transfer-rig';
import { Agent, buildConnector } from 'undici';
import { describe, expect, it } from 'vitest';
import { fileSha256, storeOutput } from './store-output.ts';

const rig = useTransferRig();

describe('storing', () => {
  const sink = (at: string, headers: Record<string, string> = {}) => ({
    contentType: 'image/png',
    url: rig.store.url(at),
    headers,
    key: 'out/x.png',
  });
  const put = async (at: string, options: Partial<Parameters<typeof storeOutput>[0]> = {}) => {
    await writeFile(rig.path, BODY);
    return storeOutput({ ...rig.options, sizeBytes: BODY.length, sink: sink(at), ...options });
  };

  it('puts the file with its length, type and the signed headers', async () => {
    await put('/out', { sink: sink('/out', { 'x-signed': 'yes' }) });
    expect(rig.store.stored.get('/out')).toMatchObject({
      bytes: BODY.length,
      sha256: await fileSha256(rig.path, new AbortController().signal),
      headers: { 'content-type': 'image/png', 'x-signed': 'yes', 'content-length': String(BODY.length) },
    });
  });

  it('loses nothing of a file that could have been read before there is a connection', async () => {
    const connector = buildConnector({});
    const slow: buildConnector.connector = (options, done) => void setTimeout(connector, 300, options, done);
    const own = new Agent({ connect: slow });
    await put('/out', { dispatcher: own });
    await own.close();
    expect(rig.store.stored.get('/out')?.bytes).toBe(BODY.length);
  });

  it('sends the content type once when it is signed', async () => {
    await put('/out', { sink: sink('/out', { 'Content-Type': 'image/png; x=1' }) });
    expect(rig.store.stored.get('/out')?.headers['content-type']).toBe('image/png; x=1');
  });

  it('sends the whole file again after 500 and after a cut connection', async () => {
    rig.store.on('/out', async (request, response, nth) => {
      if (nth === 1) return void response.writeHead(500).end();
      if (nth === 2) return void request.once('data', () => response.destroy());
      await rig.store.take(request, '/out');
      response.writeHead(201).end();
    });
    await put('/out');
    expect(rig.store.stored.get('/out')?.bytes).toBe(BODY.length);
    expect(rig.retries).toBe(2);
  });

  it('does not insist where the link is refused', async () => {
    rig.store.on('/out', (request, response) => {
      request.resume();
      response.writeHead(403).end('expired');
    });
    expect(await failure(put('/out'))).toMatchObject({ code: 'link_refused', retryable: false });
    expect(rig.store.count('/out')).toBe(1);
  });

  it('gives up a store that never answers', async () => {
    rig.store.on('/out', (request) => void request.resume());
    await impatiently(async (own) => {
      const error = await failure(put('/out', { limits: IMPATIENT, dispatcher: own }));
      expect(error.code).toBe('transfer_failed');
    });
    expect(rig.store.count('/out')).toBe(2);
  });

  it('sends nothing more once aborted', async () => {
    const controller = new AbortController();
    const reason = new Error('fenced');
    rig.store.on('/out', (request) => {
      request.resume();
      controller.abort(reason);
    });
    await expect(put('/out', { signal: controller.signal })).rejects.toBe(reason);
    expect(rig.store.count('/out')).toBe(1);
  });
});
