/** The document as Postman imports it, by Postman's own converter with its defaults. */
import { readFile } from 'node:fs/promises';
import converter from 'openapi-to-postmanv2';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openWorkshop, type Workshop } from './workshop.ts';

interface Request {
  readonly method: string;
  readonly url: { readonly host: readonly string[]; readonly path: readonly string[] };
  readonly auth?: { readonly type: string };
  readonly body?: {
    readonly mode?: string;
    readonly formdata?: readonly { readonly key: string; readonly type: string }[];
  };
}
interface Item {
  readonly name: string;
  readonly item?: readonly Item[];
  readonly request?: Request;
}
interface Collection extends Item {
  readonly variable: readonly { readonly key: string; readonly value: string }[];
  readonly auth: {
    readonly type: string;
    readonly bearer: readonly { readonly key: string; readonly value: string }[];
  };
}

let workshop: Workshop;
let collection: Collection;
beforeAll(async () => {
  workshop = await openWorkshop();
  const { promise, resolve, reject } = Promise.withResolvers<Collection>();
  converter.convertV2({ type: 'string', data: workshop.document }, {}, (error, result) => {
    if (error || !result?.result) reject(error ?? new Error(String(result?.reason)));
    else resolve(result.output?.[0]?.data as Collection);
  });
  collection = await promise;
}, 240_000);
afterAll(() => workshop?.close());

function requests({ item = [], request }: Item): Request[] {
  return [...(request ? [request] : []), ...item.flatMap(requests)];
}

/** Sends a request of the collection as Postman does, when its user has entered the key and nothing else. */
async function send(method: string, path: string, body?: FormData): Promise<Response> {
  const request = requests(collection).find(
    (one) => one.method === method && one.url.path.join('/') === path,
  );
  if (!request) throw new Error(`the collection has no ${method} ${path}`);
  const variables: Record<string, string> = {
    ...Object.fromEntries(collection.variable.map(({ key, value }) => [key, value])),
    bearerToken: workshop.apiKey,
  };
  const fill = (text: string) => text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => variables[name] ?? '');
  const url = fill([...request.url.host, ...request.url.path].join('/'));
  const token = fill(collection.auth.bearer.find(({ key }) => key === 'token')?.value ?? '');
  return fetch(url, { method, headers: { authorization: `Bearer ${token}` }, ...(body ? { body } : {}) });
}

it('has every operation, an address and one place for the key', () => {
  const operations = Object.values(JSON.parse(workshop.document).paths as Record<string, object>).flatMap(
    (item) => Object.keys(item).filter((name) => name !== 'servers'),
  );
  expect(requests(collection)).toHaveLength(operations.length);
  expect(collection.variable).toContainEqual(
    expect.objectContaining({ key: 'baseUrl', value: expect.stringMatching(/^https?:\/\/.+\/api\/v1$/) }),
  );
  expect(collection.auth.type).toBe('bearer');
});

it('sends requests that the service answers', async () => {
  for (const path of ['balance', 'voices', 'pricing', 'sessions', 'usage', 'usage/summary'])
    expect([path, (await send('GET', path)).status]).toEqual([path, 200]);
  const form = new FormData();
  const upload = requests(collection).find(({ url }) => url.path.join('/') === 'uploads');
  expect(upload?.body?.formdata).toEqual([expect.objectContaining({ key: 'file', type: 'file' })]);
  form.append(
    'file',
    new File([await readFile(`${workshop.dir}/base.jpg`)], 'base.jpg', { type: 'image/jpeg' }),
  );
  const answer = await send('POST', 'uploads', form);
  expect([answer.status, await answer.json()]).toEqual([
    200,
    expect.objectContaining({ file_key: expect.any(String) }),
  ]);
});
