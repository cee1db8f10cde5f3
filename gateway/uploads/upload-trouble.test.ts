import { hash } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from '@semblance/common/errors';
import { FORM_TYPE, formBytes, mp4Bytes, pngBytes } from '@semblance/testkit/gateway/form';
import {
  parseRaw,
  sendRaw,
  startTestGateway,
  type TestGateway,
} from '@semblance/testkit/gateway/test-gateway';
import { KIB, sizeLimits, uploadRig } from '@semblance/testkit/gateway/upload-rig';
import { beforeAll, describe, expect, it } from 'vitest';
import { UPLOADS_PER_ACCOUNT } from './under-way.ts';

const rig = uploadRig();
const { post, send, expectRefused, requestHead, open } = rig;
let t: TestGateway;
beforeAll(() => {
  t = rig.gateway;
});

describe('uploads that break off', () => {
  const form = formBytes([
    { name: 'file', filename: 'x.mp4', type: 'video/mp4', content: mp4Bytes(100 * KIB) },
  ]);

  it('a form cut short is invalid_input', async () => {
    await expectRefused(await post(form.subarray(0, -10)), 'invalid_input');
    await expectRefused(await post(form.subarray(0, 300)), 'invalid_input');
    await expectRefused(await post(form.subarray(0, 30)), 'invalid_input');
  });

  it('a client that leaves half-way leaves nothing behind', async () => {
    const socket = open();
    socket.write(requestHead(`Content-Length: ${form.length}`));
    socket.write(form.subarray(0, 50 * KIB));
    await expect.poll(() => t.files()).toHaveLength(1);
    socket.destroy();
    await expect.poll(() => t.control.aborted.length).toBe(1);
    await expect.poll(() => t.files()).toEqual([]);
  });

  it('many that leave at once leave nothing either', async () => {
    const form = formBytes([{ name: 'file', filename: 'x.mp4', content: mp4Bytes(200 * KIB) }]);
    const sockets = Array.from({ length: 20 }, () => open());
    for (const [i, socket] of sockets.entries()) {
      socket.write(requestHead(`Content-Length: ${form.length}`));
      socket.write(form.subarray(0, 1000 * (i + 1) * 5));
    }
    await expect.poll(() => t.control.reserved.size).toBe(20);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => t.control.aborted.length).toBe(20);
  });

  it('a client that only half-closes does not either', async () => {
    const socket = open();
    socket.write(requestHead(`Content-Length: ${form.length}`));
    socket.end(form.subarray(0, 50 * KIB));
    await expect.poll(() => t.control.aborted.length).toBe(1);
    await expect.poll(() => t.files()).toEqual([]);
  });

  it('a client that stalls is answered invalid_input', async () => {
    const own = await startTestGateway({ sizeLimits, timing: { uploadIdle: 400 } });
    const socket = open(own.port);
    socket.write(requestHead(`Content-Length: ${form.length}`));
    socket.write(form.subarray(0, 50 * KIB));
    await expect.poll(() => socket.received).toMatch(/invalid_input.*stalled/);
    expect(parseRaw(socket.received).status).toBe(400);
    socket.destroy();
    await own.close();
  });

  it('a client that is slow but steady is served', async () => {
    // The whole takes longer than any allowed pause; an allowed pause is much longer than these.
    const own = await startTestGateway({ sizeLimits, timing: { uploadIdle: 8_000 } });
    const small = formBytes([{ name: 'file', filename: 'x.png', content: pngBytes(40) }]);
    const socket = open(own.port);
    socket.write(requestHead(`Content-Length: ${small.length}`));
    for (let at = 0; at < small.length; at += 20) {
      socket.write(small.subarray(at, at + 20));
      await delay(850);
    }
    await expect.poll(() => socket.received).toContain('file_key');
    expect(parseRaw(socket.received).status).toBe(200);
    socket.destroy();
    await own.close();
  });

  it('a file of bytes that arrive one by one is stored whole', async () => {
    const content = pngBytes(500);
    const bytes = formBytes([{ name: 'file', filename: 'x.png', content }]);
    const stream = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    expect((await post(stream)).status).toBe(200);
    expect([...t.control.completed.values()][0]?.sha256).toEqual(hash('sha256', content, 'buffer'));
  });

  it('Expect: 100-continue is answered before the body is sent', async () => {
    const small = formBytes([{ name: 'file', filename: 'x.png', content: pngBytes(100) }]);
    const socket = open();
    socket.write(requestHead(`Content-Length: ${small.length}`, 'Expect: 100-continue'));
    await once(socket, 'data');
    expect(socket.received).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.received = '';
    socket.write(small);
    await once(socket, 'data');
    expect(parseRaw(socket.received).status).toBe(200);
    socket.destroy();
  });
});

describe('uploads that take too long', () => {
  const form = formBytes([{ name: 'file', filename: 'x.mp4', content: mp4Bytes(100 * KIB) }]);

  /** Sends the beginning of the form and then a byte now and then, until the gateway answers. */
  async function drip(own: TestGateway, everyMs: number): Promise<string> {
    const socket = open(own.port);
    socket.write(requestHead(`Content-Length: ${form.length}`));
    socket.write(form.subarray(0, 300));
    for (let at = 300; !socket.received && at < 400; at++) {
      await delay(everyMs);
      socket.write(form.subarray(at, at + 1));
    }
    const { received } = socket;
    socket.destroy();
    return received;
  }

  it.each([
    ['too few bytes for too long', { uploadRateWindow: 300 }, /less than 4096 bytes a second/],
    ['all of it too long', { uploadTotal: 300 }, /longer than 0.3 s/],
  ])('%s is invalid_input, and nothing is kept', async (_name, timing, message) => {
    const own = await startTestGateway({ sizeLimits, timing: { uploadIdle: 60_000, ...timing } });
    const answer = parseRaw(await drip(own, 20));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({
      error: { code: 'invalid_input', message: expect.stringMatching(message) },
    });
    await expect.poll(() => own.control.aborted.length).toBe(1);
    await expect.poll(() => own.files()).toEqual([]);
    await own.close();
  });

  it('one that is completed after its reservation ran out is invalid_input, and given up', async () => {
    t.control.failures.set('completeUpload', new ApiError('not_found', 'Not under way.'));
    await expectRefused(
      await send({ name: 'file', filename: 'x.png', content: pngBytes() }),
      'invalid_input',
    );
    expect(t.control.aborted).toHaveLength(1);
  });
});

describe('an account with many uploads under way', () => {
  const form = formBytes([{ name: 'file', filename: 'x.png', content: pngBytes(2000) }]);

  it('is at_capacity beyond its most, before a body is asked for, until one ends', async () => {
    const own = await startTestGateway({ sizeLimits, timing: { uploadIdle: 60_000 } });
    const begin = () => {
      const socket = open(own.port);
      socket.write(requestHead(`Content-Length: ${form.length}`));
      socket.write(form.subarray(0, 1000));
      return socket;
    };
    const [ending, ...leaving] = Array.from({ length: UPLOADS_PER_ACCOUNT }, begin);
    await expect.poll(() => own.control.reserved.size).toBe(UPLOADS_PER_ACCOUNT);
    const refused = open(own.port);
    refused.write(requestHead(`Content-Length: ${form.length}`, 'Expect: 100-continue'));
    await expect.poll(() => refused.received).toContain('at_capacity');
    expect(parseRaw(refused.received)).toMatchObject({ status: 429, headers: { 'retry-after': '2' } });
    expect(own.control.reserved.size).toBe(UPLOADS_PER_ACCOUNT);
    refused.destroy();

    ending?.write(form.subarray(1000));
    await expect.poll(() => ending?.received).toContain('file_key');
    for (const socket of [ending, ...leaving]) socket?.destroy();
    await expect.poll(() => own.control.reserved.size).toBe(0);
    // All places but one are taken again, so that the uploads below need the place of one that left.
    const staying = Array.from({ length: UPLOADS_PER_ACCOUNT - 1 }, begin);
    await expect.poll(() => own.control.reserved.size).toBe(staying.length);
    const headers = { ...own.auth, 'content-type': FORM_TYPE };
    const upload = () => fetch(`${own.base}/uploads`, { method: 'POST', headers, body: form });
    await expect.poll(async () => (await upload()).status).toBe(200);
    for (const socket of staying) socket.destroy();
    await expect.poll(() => own.control.reserved.size).toBe(0);
    await own.close();
  });
});

describe('services in trouble', () => {
  const png = { name: 'file', filename: 'x.png', type: 'image/png', content: pngBytes() };

  it('a refusal to begin is passed on, before the body is read', async () => {
    t.control.failures.set('beginUpload', new ApiError('rate_limited', 'Too fast.'));
    await expectRefused(await send(png), 'rate_limited', 429);
    expect(t.control.aborted).toEqual([]);
  });

  it('a failure to complete gives the upload up', async () => {
    t.control.failures.set('completeUpload', new Error('database gone'));
    await expectRefused(await send(png), 'internal_error', 502);
    expect(t.control.aborted).toHaveLength(1);
  });

  it('an object store that fails is internal_error', async () => {
    const { put } = t.store;
    t.store.put = async (_key, source) => {
      source.resume();
      throw new Error('disk full');
    };
    const response = await send(png);
    t.store.put = put;
    await expectRefused(response, 'internal_error', 502);
    expect(t.logLines.join()).toContain('disk full');
  });

  it('the control plane gone half-way is internal_error, and what was stored is swept by it later', async () => {
    const { port } = t.control;
    const socket = open();
    const form = formBytes([png]);
    socket.write(requestHead(`Content-Length: ${form.length}`));
    socket.write(form.subarray(0, 500));
    await expect.poll(() => t.control.reserved.size).toBe(1);
    await t.control.close();
    socket.write(form.subarray(500));
    await once(socket, 'data');
    expect(parseRaw(socket.received).status).toBe(502);
    socket.destroy();
    await t.control.start(port);
    for (const key of t.control.reserved) await t.store.delete(key);
    t.control.reserved.clear();
    await expect.poll(async () => (await fetch(`${t.base}/balance`, { headers: t.auth })).status).toBe(200);
  });
});

describe('the end of the gateway', () => {
  it('lets a running upload end, cuts one that does not, and gives that one up', async () => {
    const own = await startTestGateway({ sizeLimits, timing: { drain: 8_000, tidy: 20_000 } });
    const form = formBytes([{ name: 'file', filename: 'x.png', content: pngBytes(2000) }]);
    const [ending, hanging] = [open(own.port), open(own.port)];
    for (const socket of [ending, hanging]) {
      socket.write(requestHead(`Content-Length: ${form.length}`));
      socket.write(form.subarray(0, 1000));
    }
    await expect.poll(() => own.control.reserved.size).toBe(2);
    const closing = own.gateway.close();
    ending.write(form.subarray(1000));
    await once(ending, 'close');
    expect(parseRaw(ending.received)).toMatchObject({ status: 200, headers: { connection: 'close' } });
    await closing;
    expect(own.control.reserved.size).toBe(0);
    expect(own.control.completed.size).toBe(1);
    expect(await own.files()).toHaveLength(1);
    expect(parseRaw(await sendRaw(own.port, 'GET / HTTP/1.1\r\n\r\n', 50)).status).toBeNaN();
    await own.close();
  });
});

describe('an account with little room', () => {
  const stream = (content: Buffer) =>
    new Blob([formBytes([{ name: 'file', filename: 'x.mp4', content }])]).stream();

  it('is refused the first byte too many of a body of unknown length, and keeps nothing', async () => {
    t.control.roomForUploads = BigInt(50 * KIB);
    const answer = await post(stream(mp4Bytes(50 * KIB + 1)));
    await expectRefused(answer, 'at_capacity', 429);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await post(stream(mp4Bytes(50 * KIB)))).status).toBe(200);
    t.control.roomLater = [60, 61, 200].map((kib) => BigInt(kib * KIB));
    expect((await post(stream(mp4Bytes(150 * KIB)))).status).toBe(200);
    expect(t.control.roomLater).toEqual([]);
    t.control.roomForUploads = undefined;
  });

  it('is told by the control plane, which knows what the length says, and when to try again', async () => {
    t.control.failures.set('beginUpload', new ApiError('at_capacity', 'no', { retryAfterSeconds: 17 }));
    const content = mp4Bytes(100 * KIB);
    const answer = await send({ name: 'file', filename: 'x.mp4', content });
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '17']);
    const { request } = t.control.calls.findLast(({ method }) => method === 'beginUpload') ?? {};
    const { leastBytes, reserveBytes } = request as { leastBytes: bigint; reserveBytes: bigint };
    expect(leastBytes).toBeLessThanOrEqual(BigInt(content.length));
    expect(reserveBytes).toBeGreaterThanOrEqual(BigInt(content.length));
    expect(reserveBytes).toBeLessThan(BigInt(content.length + KIB));
  });
});
