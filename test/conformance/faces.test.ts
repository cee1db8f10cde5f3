import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Upload } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, brokenJpeg, faceless, wav } from '@semblance/testkit/stack/media';
import { type Contract, readContract } from '@semblance/testkit/stack/openapi';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: the people of a file. */
interface Found {
  readonly file_key: string;
  readonly kind: string;
  readonly frames: number;
  readonly faces: readonly {
    readonly face_id: string;
    readonly box: { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
    readonly share: number;
    readonly usable_as_source: boolean;
    readonly usable_as_target: boolean;
    readonly reasons: { readonly source: readonly string[]; readonly target: readonly string[] };
    readonly crop_url: string;
  }[];
}

const DEMO = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
/** A photograph of five people. */
const GROUP: Upload = {
  filename: 'group.jpg',
  contentType: 'image/jpeg',
  bytes: readFileSync(join(DEMO, 'sample5.jpg')),
};

let stack: Stack;
let account: Account;
let contract: Contract;
let group: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  contract = await readContract(account.api.baseUrl);
  group = await account.api.upload(GROUP);
}, 240_000);

/** Asks until an agent has room: other tests keep the agents busy. */
async function facesOf(file_key: string, api = account.api): Promise<Found> {
  for (;;) {
    const answer = await api.post('/faces', { file_key });
    if (answer.status === 429) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      continue;
    }
    expect(answer.status, answer.text).toBe(200);
    const operation = contract.operations.find(({ operationId }) => operationId === 'findFaces');
    if (!operation) throw new Error('the document has no findFaces');
    expect(contract.faultsOf(operation, answer)).toEqual([]);
    return answer.body as Found;
  }
}

describe('POST /faces', () => {
  test('finds the five people of a group, for nothing, and answers the same again', async () => {
    const before = await account.api.balance();
    const found = await facesOf(group);
    expect(found).toMatchObject({ file_key: group, kind: 'image', frames: 1 });
    expect(found.faces).toHaveLength(5);
    expect(found.faces.map((face) => face.usable_as_source)).toEqual([true, false, false, false, false]);
    expect(found.faces.every((face) => face.usable_as_target && face.share === 1)).toBe(true);
    expect(found.faces[1]?.reasons).toEqual({ source: ['bystander'], target: [] });
    expect(new Set(found.faces.map((face) => face.face_id)).size).toBe(5);
    expect((await facesOf(group)).faces.map((face) => face.face_id)).toEqual(
      found.faces.map((face) => face.face_id),
    );
    expect(await account.api.balance()).toEqual(before);
  });

  test('shows each face in a picture of its own, which shows what its box holds', async () => {
    const { faces } = await facesOf(group);
    const { width = 0, height = 0 } = await sharp(Buffer.from(GROUP.bytes)).metadata();
    for (const { box, crop_url } of faces) {
      const response = await fetch(crop_url);
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/jpeg']);
      const crop = Buffer.from(await response.arrayBuffer());
      expect(await sharp(crop).metadata()).toMatchObject({ format: 'jpeg', width: 192, height: 192 });
      const inBox = {
        left: Math.round(box.x * width),
        top: Math.round(box.y * height),
        width: Math.round(box.width * width),
        height: Math.round(box.height * height),
      };
      const level = async (bytes: Uint8Array, rect: typeof inBox) => {
        const part = await sharp(Buffer.from(bytes)).extract(rect).greyscale().png().toBuffer();
        return (await sharp(part).stats()).channels[0]?.mean ?? 0;
      };
      const middle = await level(crop, { left: 48, top: 48, width: 96, height: 96 });
      expect(Math.abs(middle - (await level(GROUP.bytes, inBox)))).toBeLessThan(30);
    }
  });

  test('finds nobody where nobody is', async () => {
    expect((await facesOf(await account.api.upload(await faceless()))).faces).toEqual([]);
  });

  test.each<[string, () => Promise<unknown>, string]>([
    ['no key', async () => ({}), 'file_key is required'],
    ['a key that is none', async () => ({ file_key: 'http://x/y' }), 'file_key must be'],
    ['a list', async () => [], 'JSON object'],
    ['an unknown key', async () => ({ file_key: 'api/up-none' }), 'no upload of yours'],
    ['sound', async () => ({ file_key: await account.api.upload(wav()) }), 'a picture or a video'],
    [
      'another account’s key',
      async () => ({ file_key: await (await stack.newAccount()).api.upload(ADMIRAL) }),
      'no upload of yours',
    ],
  ])('refuses %s', async (_what, body, message) => {
    expect(
      expectError(await account.api.post('/faces', (await body()) as object), 'invalid_input'),
    ).toContain(message);
  });

  test('refuses a broken picture as its job would fail', async () => {
    const file_key = await account.api.upload(brokenJpeg());
    for (;;) {
      const answer = await account.api.post('/faces', { file_key });
      if (answer.status === 429) continue;
      expectError(answer, 'unsupported_format');
      return;
    }
  });

  test('asked 32 times at once searches once, and other accounts are not held up', async () => {
    const crowd = await stack.newAccount();
    const file_key = await crowd.api.upload(ASTRONAUT);
    const answers = await Promise.all(
      Array.from({ length: 32 }, () => crowd.api.post('/faces', { file_key })),
    );
    const ids = new Set<string>();
    for (const answer of answers) {
      if (answer.status === 200) ids.add((answer.body as Found).faces.map((face) => face.face_id).join());
      else expectError(answer, 'at_capacity');
    }
    ids.add((await facesOf(file_key, crowd.api)).faces.map((face) => face.face_id).join());
    expect(ids.size).toBe(1);
  });

  test('what was found goes with the file, with receipts, and its links end', async () => {
    const file_key = await account.api.upload(ASTRONAUT);
    const { faces } = await facesOf(file_key);
    const url = faces[0]?.crop_url ?? '';
    expect((await fetch(url)).status).toBe(200);
    expect((await account.api.request('DELETE', `/uploads/${file_key}`)).status).toBe(200);
    expect((await fetch(url)).status).toBe(404);
    expect(expectError(await account.api.post('/faces', { file_key }), 'invalid_input')).toContain(
      'no upload of yours',
    );
    const { body } = await account.api.get('/receipts');
    const { receipts } = body as { receipts: { statement: { kind: string; object_key: string } }[] };
    expect(receipts.map(({ statement }) => statement)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ kind: 'upload', object_key: file_key }),
        expect.objectContaining({ kind: 'crop', object_key: `faces/${faces[0]?.face_id}.jpg` }),
      ]),
    );
  });
});
