import type { Api } from './api.ts';

export interface JobEvent {
  readonly id: string;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

export interface Followed {
  readonly status: number;
  readonly headers: Headers;
  /** Events received so far. */
  readonly events: JobEvent[];
  /** Resolves when the server has ended the stream; rejects when the stream is cut off. */
  readonly ended: Promise<void>;
  leave(): void;
}

/** Opens an event stream by GET and parses it as the HTML standard says. */
export async function follow(
  { baseUrl, apiKey }: Pick<Api, 'baseUrl' | 'apiKey'>,
  path: string,
  headers: Record<string, string> = {},
): Promise<Followed> {
  const leaving = new AbortController();
  const response = await fetch(`${baseUrl}${path}`, {
    headers: { authorization: `Bearer ${apiKey}`, ...headers },
    signal: leaving.signal,
  });
  const events: JobEvent[] = [];
  const read = async () => {
    let text = '';
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part;
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
        const [id, event, data] = [field('id'), field('event'), field('data')];
        if (id && event && data) events.push({ id, event, data: JSON.parse(data) });
      }
    }
  };
  const ended = read();
  ended.catch(() => {});
  return { status: response.status, headers: response.headers, events, ended, leave: () => leaving.abort() };
}

/** Returns the statuses of the events in order. */
export function statusesOf(events: readonly JobEvent[]): unknown[] {
  return events.filter(({ event }) => event === 'status').map(({ data }) => data.status);
}
