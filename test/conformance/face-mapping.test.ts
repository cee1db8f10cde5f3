import { readFileSync } from 'node:fs';
import type { Picture } from '@semblance/engine-api/picture';
import { GROUP, openEyes } from '@semblance/testkit/engine-builtin/group';
import type { Upload } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, wav } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { sameness } from '@semblance/vision/face-recogniser';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: several people of one picture get a face each. */
const group: Upload = { filename: 'group.jpg', contentType: 'image/jpeg', bytes: readFileSync(GROUP) };

let stack: Stack;
let account: Account;
let image_key: string;
let astronaut: string;
let admiral: string;
let ids: string[];
let boxes: { x: number; y: number; width: number; height: number }[];

async function facesOf(file_key: string) {
  for (;;) {
    const answer = await account.api.post('/faces', { file_key });
    if (answer.status === 200)
      return answer.body as {
        faces: { face_id: string; usable_as_target: boolean; box: (typeof boxes)[number] }[];
      };
    expectError(answer, 'at_capacity');
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 2 });
  const { api } = account;
  [image_key, astronaut, admiral] = (await Promise.all([
    api.upload(group),
    api.upload(ASTRONAUT),
    api.upload(ADMIRAL),
  ])) as [string, string, string];
  const { faces } = await facesOf(image_key);
  ids = faces.map((face) => face.face_id);
  boxes = faces.map((face) => face.box);
}, 240_000);

const submit = (body: object, path = '/face-swap-image') => account.api.post(path, { image_key, ...body });

async function pictureOf(bytes: Uint8Array): Promise<Picture> {
  const { data, info } = await sharp(Buffer.from(bytes))
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

describe('`faces` of a submit', () => {
  test('give two of five people a face each, and the record and its events tell who got which', async () => {
    const faces = [
      { face_id: ids[3], face_key: astronaut },
      { face_id: ids[1], face_key: admiral },
    ];
    const answer = await submit({ faces });
    expect(answer.status, answer.text).toBe(200);
    const { id } = answer.body as { id: string };
    const job = await account.api.finished(id);
    expect(job.status).toBe('succeeded');
    expect(job.charged_usd).toBe(0.04);
    const told = ids.map((face_id, place) => {
      const at = [3, 1].indexOf(place);
      return { face_id, given: at < 0 ? null : `faces.${at}.face_key`, frames: at < 0 ? 0 : 1 };
    });
    expect(job.details).toMatchObject({ faces: { found: 5, changed: 2 }, mapped_faces: told });
    const events = await (
      await fetch(`${account.api.baseUrl}/jobs/${id}/events`, {
        headers: { Authorization: `Bearer ${account.apiKey}` },
      })
    ).text();
    expect(events).toContain(JSON.stringify(told));
    // Nothing that people are recognised by is in the cluster.
    const spec = JSON.stringify((await stack.kubectl.renderJob(id))?.spec);
    expect(spec).toContain('faces_sha256');
    expect(spec).not.toContain('look');
    const eyes = await openEyes();
    const out = await pictureOf(Buffer.from(await (await fetch(job.output_url ?? '')).arrayBuffer()));
    const before = await pictureOf(group.bytes);
    const sources = await Promise.all(
      [ASTRONAUT, ADMIRAL].map(async ({ bytes }) => {
        const picture = await pictureOf(bytes);
        const [face] = await eyes.find(picture);
        return face ? eyes.describe(picture, face) : new Float32Array();
      }),
    );
    for (const face of await eyes.find(before)) {
      const [x, y] = [(face.points[0] ?? 0) / before.width, (face.points[1] ?? 0) / before.height];
      const place = boxes.findIndex(
        (box) => Math.abs(x - box.x - box.width / 2) < box.width && y > box.y && y < box.y + box.height,
      );
      const [was, now] = [await eyes.describe(before, face), await eyes.describe(out, face)];
      const gains = sources.map((source) => sameness(source, now) - sameness(source, was));
      const at = [3, 1].indexOf(place);
      if (at < 0) expect(sameness(was, now)).toBeGreaterThan(0.97);
      else expect(gains.indexOf(Math.max(...gains))).toBe(at);
    }
  });

  test('beside `face_key` leave that for everybody else', async () => {
    const { id } = (await submit({ face_key: admiral, faces: [{ face_id: ids[0], face_key: astronaut }] }))
      .body as {
      id: string;
    };
    const { details } = (await account.api.finished(id)) as unknown as {
      details: { mapped_faces: { given: string | null }[] };
    };
    expect(details.mapped_faces.map(({ given }) => given)).toEqual([
      'faces.0.face_key',
      ...Array(4).fill('face_key'),
    ]);
  });

  test('are held to be one submit with one Idempotency-Key, and another with other faces', async () => {
    const headers = { 'Idempotency-Key': 'mapping-1' };
    const send = (face_key: string) =>
      account.api.post('/face-swap-image', { image_key, faces: [{ face_id: ids[0], face_key }] }, headers);
    const [first, again] = [await send(astronaut), await send(astronaut)];
    expect((again.body as { id: string }).id).toBe((first.body as { id: string }).id);
    expectError(await send(admiral), 'invalid_input');
    await account.api.finished((first.body as { id: string }).id);
  });

  test.each<[string, () => Promise<object>, string]>([
    ['of nobody', async () => ({ faces: [] }), 'faces must name at least one person'],
    [
      'of eleven',
      async () => ({ faces: Array(11).fill({ face_id: ids[0], face_key: admiral }) }),
      'at most 10',
    ],
    ['that are a text', async () => ({ faces: 'x' }), 'faces must be a list'],
    ['without a picture', async () => ({ faces: [{ face_id: ids[0] }] }), 'faces.0.face_key is required'],
    [
      'with an id that is none',
      async () => ({ faces: [{ face_id: 'me', face_key: admiral }] }),
      'faces.0.face_id must be',
    ],
    [
      'with an unknown id',
      async () => ({ faces: [{ face_id: `face-${'0'.repeat(26)}`, face_key: admiral }] }),
      'faces.0.face_id is of nobody whom POST /faces found in image_key',
    ],
    [
      'with the id of another file',
      async () => ({ faces: [{ face_id: (await facesOf(admiral)).faces[0]?.face_id, face_key: admiral }] }),
      'faces.0.face_id is of nobody',
    ],
    [
      'with one person twice',
      async () => ({
        faces: [
          { face_id: ids[0], face_key: admiral },
          { face_id: ids[0], face_key: astronaut },
        ],
      }),
      'faces.1.face_id is named twice',
    ],
    [
      'with sound',
      async () => ({ faces: [{ face_id: ids[0], face_key: await account.api.upload(wav()) }] }),
      'faces.0.face_key must be the key of an image',
    ],
    [
      'with another account’s picture',
      async () => ({
        faces: [{ face_id: ids[0], face_key: await (await stack.newAccount()).api.upload(ADMIRAL) }],
      }),
      'faces.0.face_key names no upload of yours',
    ],
  ])('%s are refused at submit and estimate, and hold nothing', async (_what, body, message) => {
    const given = await body();
    const before = await account.api.balance();
    for (const path of ['/face-swap-image', '/estimate']) {
      const more = path === '/estimate' ? { capability: 'face-swap-image' } : {};
      expect(expectError(await submit({ ...more, ...given }, path), 'invalid_input')).toContain(message);
    }
    expect(await account.api.balance()).toEqual(before);
  });

  test('of a file that is gone are refused', async () => {
    const key = await account.api.upload(group);
    const { faces } = await facesOf(key);
    await account.api.request('DELETE', `/uploads/${key}`);
    const answer = await account.api.post('/face-swap-image', {
      image_key: key,
      faces: [{ face_id: faces[0]?.face_id, face_key: admiral }],
    });
    expect(expectError(answer, 'invalid_input')).toContain('faces.0.face_id is of nobody');
  });
});
