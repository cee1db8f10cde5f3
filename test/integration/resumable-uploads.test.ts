/**
 * Uploads that go on after breaks, over two gateway processes that share a database and a store. With
 * SEMBLANCE_RESUMABLE_MIB=500 the file is as large as the largest video.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  makeAccount,
  startTestSystem,
  type TestSystem,
} from '@semblance/testkit/control-plane/control-plane';
import { mp4Bytes } from '@semblance/testkit/gateway/form';
import { type GatewayProcess, startGatewayProcess } from '@semblance/testkit/gateway/gateway-process';
import { DroppedError, resumableClient } from '@semblance/testkit/stack/resumable-client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

const MIB = 1024 * 1024;
const SIZE = Number(process.env.SEMBLANCE_RESUMABLE_MIB || 12) * MIB;

let system: TestSystem;
let planes: number[];
let gateways: [GatewayProcess, GatewayProcess];
let client: ReturnType<typeof resumableClient>;

const start = (controlPort: number) => startGatewayProcess({ controlPort, folder: system.folder });

beforeAll(async () => {
  system = await startTestSystem();
  const second = await system.startPlane();
  planes = [system.plane.port, second.port];
  gateways = (await Promise.all(planes.map(start))) as [GatewayProcess, GatewayProcess];
  client = resumableClient((await makeAccount(system, 1, 100_000)).apiKey);
}, 120_000);

afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.end('SIGTERM')));
  await system.close();
});

/** A file that begins like a video, and whose every byte matters. */
function video(size = SIZE): Buffer {
  const bytes = randomBytes(size);
  mp4Bytes(1_024).copy(bytes);
  return bytes;
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const at = (gateway: GatewayProcess, location: string | undefined) => gateway.origin + (location ?? '');
const head = { 'content-type': 'video/mp4' };

async function expectStored(
  answer: { status: number; body: { file_key?: string; url?: string } },
  file: Buffer,
) {
  expect(answer).toMatchObject({ status: 200, body: { file_key: expect.stringMatching(/^api\/up-/) } });
  const hash = createHash('sha256');
  let length = 0;
  for await (const chunk of await system.objects.read(answer.body.file_key as string)) {
    hash.update(chunk as Buffer);
    length += (chunk as Buffer).length;
  }
  expect([length, hash.digest('hex')]).toEqual([file.length, sha256(file)]);
}

test('a file over a line that drops six times, through either gateway, is whole', async () => {
  const file = video();
  const began = await client.begin(gateways[0].baseUrl, {
    headers: { ...head, 'upload-length': String(SIZE) },
  });
  expect(began).toMatchObject({ status: 201, headers: { 'upload-complete': '?0', 'upload-offset': '0' } });
  const offsets = [0];
  for (let drop = 1; drop <= 6; drop++) {
    const gateway = gateways[drop % 2] as GatewayProcess;
    const offset = offsets.at(-1) as number;
    const dropAfter = Math.round((SIZE * drop) / 7.3) - offset;
    const url = at(gateway, began.headers.location);
    const sent = await client
      .goOn(url, offset, { body: file.subarray(offset), dropAfter })
      .catch((error: unknown) => error);
    // A request before may have reached the database after the offset was told; then the right one is told now.
    if (!(sent instanceof DroppedError)) expect(sent).toMatchObject({ status: 409 });
    // The other gateway knows nothing of the request; the same one first stores what it received.
    const asked = gateways[drop % 2 === 0 ? 0 : (drop + 1) % 2] as GatewayProcess;
    const next = await client.offset(at(asked, began.headers.location));
    expect(next).toBeGreaterThanOrEqual(offset);
    expect(next).toBeLessThanOrEqual((SIZE * drop) / 7.3 + 1);
    offsets.push(next);
  }
  // What the same gateway received was kept.
  expect(offsets.at(-1)).toBeGreaterThan(SIZE / 2);
  const last = offsets.at(-1) as number;
  const url = at(gateways[0], began.headers.location);
  const answer = await client.goOn(url, last, { body: file.subarray(last) });
  expect(answer.headers['upload-complete']).toBe('?1');
  await expectStored(answer, file);
  // The answer may get lost: it is given again.
  const again = await client.goOn(url, SIZE);
  expect(again).toMatchObject({ status: 200, body: { file_key: answer.body.file_key } });
  expect(await client.send('HEAD', url)).toMatchObject({
    status: 204,
    headers: { 'upload-complete': '?1', 'upload-offset': String(SIZE), 'upload-length': String(SIZE) },
  });
}, 600_000);

test('a drop that the gateway sees loses not a byte of what it received', async () => {
  const file = video(3 * MIB);
  const { headers } = await client.begin(gateways[0].baseUrl, { headers: head });
  const url = at(gateways[0], headers.location);
  await expect(
    client.goOn(url, 0, { body: file, dropAfter: 2 * MIB + 17, rate: MIB }),
  ).rejects.toBeInstanceOf(DroppedError);
  await expect.poll(() => client.offset(url)).toBe(2 * MIB + 17);
  await expectStored(await client.goOn(url, 2 * MIB + 17, { body: file.subarray(2 * MIB + 17) }), file);
});

test('a gateway that is killed in the middle loses no byte that it told', async () => {
  const file = video(40 * MIB);
  const { headers } = await client.begin(gateways[0].baseUrl, { headers: head });
  let told = 0;
  const sending = client.goOn(at(gateways[0], headers.location), 0, {
    body: file,
    rate: 20 * MIB,
    onOffset: (offset) => {
      told = offset;
      gateways[0].child.kill('SIGKILL');
    },
  });
  await expect(sending).rejects.toBeInstanceOf(DroppedError);
  const other = at(gateways[1], headers.location);
  const offset = await client.offset(other);
  expect(told).toBeGreaterThan(0);
  expect(offset).toBeGreaterThanOrEqual(told);
  expect(offset).toBeLessThan(file.length);
  await expectStored(await client.goOn(other, offset, { body: file.subarray(offset) }), file);
  gateways[0] = await start(planes[0] as number);
});

test('a later request fences an earlier one: an offset that was told does not move, and nothing is mixed', async () => {
  const file = video(6 * MIB);
  const { headers } = await client.begin(gateways[0].baseUrl, { headers: head });
  // The earlier writer sends other bytes, slowly, and goes on when the upload is no longer its own.
  const other = video(6 * MIB);
  const earlier = client
    .goOn(at(gateways[0], headers.location), 0, { body: other, rate: 2 * MIB })
    .catch((error) => error);
  await delay(1_000);
  const url = at(gateways[1], headers.location);
  const offset = await client.offset(url);
  const answer = await client.goOn(url, offset, { body: file.subarray(offset) });
  const expected = Buffer.concat([other.subarray(0, offset), file.subarray(offset)]);
  await expectStored(answer, expected);
  const refused = await earlier;
  if (!(refused instanceof DroppedError)) expect(refused.status).toBe(409);
  expect(await client.offset(url)).toBe(file.length);
});

test('of many writers at one offset one goes on, and the file is one of theirs', async () => {
  const files = Array.from({ length: 6 }, () => video(MIB));
  const { headers } = await client.begin(gateways[0].baseUrl, { headers: head });
  const answers = await Promise.all(
    files.map((file, i) =>
      client
        .goOn(at(gateways[i % 2] as GatewayProcess, headers.location), 0, { body: file })
        .catch((error: unknown) => error),
    ),
  );
  const url = at(gateways[0], headers.location);
  const won = answers.filter((answer) => (answer as { status?: number }).status === 200);
  if (won.length === 0) {
    // All were fenced by later ones; whoever comes then goes on.
    const offset = await client.offset(url);
    const writer = files.find((file) => offset === 0 || file.length === offset) as Buffer;
    await client.goOn(url, offset, { body: writer.subarray(offset) });
  }
  const { body } = await client.goOn(url, MIB);
  const chunks: Buffer[] = [];
  for await (const chunk of await system.objects.read(body.file_key as string)) chunks.push(chunk as Buffer);
  expect(files.map(sha256)).toContain(sha256(Buffer.concat(chunks)));
});

test('a drained gateway keeps what it has', async () => {
  const file = video(8 * MIB);
  const { headers } = await client.begin(gateways[0].baseUrl, { headers: head });
  const sending = client
    .goOn(at(gateways[0], headers.location), 0, { body: file, rate: MIB })
    .catch((error: unknown) => error);
  await delay(1_500);
  await gateways[0].end('SIGTERM');
  await sending;
  const url = at(gateways[1], headers.location);
  const offset = await client.offset(url);
  expect(offset).toBeGreaterThan(0);
  await expectStored(await client.goOn(url, offset, { body: file.subarray(offset) }), file);
  gateways[0] = await start(planes[0] as number);
});

afterEach(async () => {
  // No write is left half-way.
  await expect.poll(() => readdir(join(system.folder, 'tmp'))).toEqual([]);
});
