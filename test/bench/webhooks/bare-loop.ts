/**
 * Peer of the webhook worker: undici that POSTs ready bodies to the same receivers, and records, signs and retries
 * nothing. Arguments: a file with `[{url, body, headers}]`, and the number of requests at a time. POSTs each entry
 * once and prints the seconds that it took.
 */
import { readFileSync } from 'node:fs';
import { Agent, request } from 'undici';

interface Post {
  readonly url: string;
  readonly body: string;
  readonly headers: Record<string, string>;
}
const [file = '', atOnce = '64'] = process.argv.slice(2);
const posts = JSON.parse(readFileSync(file, 'utf8')) as Post[];
const dispatcher = new Agent({ connections: 16, pipelining: 1 });

async function postAll(all: readonly Post[]): Promise<number> {
  let next = 0;
  const began = performance.now();
  const loop = async () => {
    for (let post = all[next++]; post; post = all[next++]) {
      const { url, body, headers } = post;
      const answer = await request(url, { method: 'POST', body, headers, dispatcher });
      await answer.body.dump();
      if (answer.statusCode !== 204) throw new Error(`${url} answered ${answer.statusCode}`);
    }
  };
  await Promise.all(Array.from({ length: Number(atOnce) }, loop));
  return (performance.now() - began) / 1000;
}

// The first posts open the connections and compile the code.
await postAll(posts.slice(0, Math.min(2_000, posts.length)));
console.log(await postAll(posts));
await dispatcher.close();
