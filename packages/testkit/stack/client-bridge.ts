/** Request that a client library is to make. */
interface Asked {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/**
 * Has a client library make a request, so that a suite runs through it. `bridge` is the address of a program that
 * takes the request as JSON, makes it by the library, and answers what came. Its own answer is 200 unless the library
 * returned something else than came.
 */
export async function askClient(bridge: string, { body, headers = {}, ...asked }: Asked): Promise<Response> {
  const encoded = body === undefined ? null : Buffer.from(body).toString('base64');
  const response = await fetch(bridge, {
    method: 'POST',
    body: JSON.stringify({ ...asked, headers, body: encoded }),
  });
  if (response.status !== 200) throw new Error(`the bridge to the client: ${await response.text()}`);
  const told = (await response.json()) as { status: number; headers: [string, string][]; body: string };
  // A Response with such a status must have no body.
  const content = [204, 304].includes(told.status) ? null : Buffer.from(told.body, 'base64');
  return new Response(content, { status: told.status, headers: told.headers });
}
