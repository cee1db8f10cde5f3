import { askClient } from './client-bridge.ts';
import { eventually } from './eventually.ts';
import { MULTIPART, multipart, type Part } from './multipart.ts';
import { askFairly } from './standstill.ts';

/** Complete answer of the API. `body` is the parsed JSON; undefined when the answer is no JSON. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: unknown;
}

export interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** Job record of the specification, with the details that the service adds. */
export interface JobRecord {
  readonly id: string;
  readonly status: string;
  readonly output_url: string | null;
  readonly charged_usd: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly details?: {
    readonly faces?: {
      readonly found: number;
      readonly changed: number;
      readonly left: readonly { readonly reason: string; readonly count: number }[];
    };
    readonly hints: readonly { readonly code: string; readonly message: string; readonly input?: string }[];
  };
  readonly preview_url?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly expires_at?: string;
}

export interface Balance {
  readonly balance_usd: number;
  readonly total_spent_usd: number;
  readonly total_topped_up_usd: number;
  readonly spent_this_week_usd: number;
  readonly spent_this_month_usd: number;
  readonly spent_this_year_usd: number;
  readonly held_usd: number;
  readonly reserved_usd: number;
  readonly available_usd: number;
}

export interface Submitted {
  readonly id: string;
  readonly status: string;
  readonly status_url: string;
}

export type Upload = { filename: string; contentType?: string; bytes: Uint8Array };

/**
 * Public API over HTTP with one key. Nothing throws on an error status, except where it is said. A request that
 * failed while the machine stood still for seconds is repeated once.
 */
export interface Api {
  readonly baseUrl: string;
  readonly apiKey: string | undefined;
  /** `path` is relative to the base address. The bearer header is added unless `headers` has an Authorization. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Sends a value as JSON by POST. */
  post(path: string, value: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Sends these parts to POST /uploads. */
  multipart(parts: readonly Part[]): Promise<Answer>;
  /** Uploads a file and returns its key; throws when it is refused. */
  upload(file: Upload): Promise<string>;
  /** Submits a Photo Swap; throws when it is refused. */
  swap(
    body: { image_key: string; face_key: string; callback_url?: string },
    headers?: Readonly<Record<string, string>>,
  ): Promise<Submitted>;
  /** Reads a job; throws when the read is refused. */
  job(id: string): Promise<JobRecord>;
  /** Polls a job until it is terminal and its charge is settled. */
  finished(id: string, withinMs?: number): Promise<JobRecord>;
  balance(): Promise<Balance>;
}

/** @param options.apiKey undefined: requests carry no Authorization */
export function apiOf({ baseUrl, apiKey }: { baseUrl: string; apiKey?: string }): Api {
  const request = async (method: string, path: string, options: RequestOptions = {}): Promise<Answer> => {
    const headers = new Headers(options.headers);
    if (apiKey !== undefined && !headers.has('authorization')) {
      headers.set('authorization', `Bearer ${apiKey}`);
    }
    const init = {
      method,
      headers,
      redirect: 'manual' as const,
      ...(options.body === undefined ? {} : { body: options.body as RequestInit['body'] }),
    };
    const bridge = process.env.SEMBLANCE_TEST_CLIENT;
    if (bridge && apiKey !== undefined && options.headers?.authorization === undefined)
      return askFairly(
        async () => readAnswer(await askClient(bridge, { baseUrl, apiKey, method, path, ...options })),
        isFailure,
      );
    return askFairly(async () => readAnswer(await fetch(`${baseUrl}${path}`, init)), isFailure);
  };
  const api: Api = {
    baseUrl,
    apiKey,
    request,
    get: (path, headers) => request('GET', path, headers ? { headers } : {}),
    post: (path, value, headers) =>
      request('POST', path, {
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(value),
      }),
    multipart: (parts) =>
      request('POST', '/uploads', { headers: { 'content-type': MULTIPART }, body: multipart(parts) }),
    async upload({ filename, contentType, bytes }) {
      const part: Part = { name: 'file', filename, body: bytes, ...(contentType ? { contentType } : {}) };
      return (good(await api.multipart([part])) as { file_key: string }).file_key;
    },
    swap: async (body, headers) => good(await api.post('/face-swap-image', body, headers)) as Submitted,
    job: async (id) => good(await api.get(`/jobs/${id}`)) as JobRecord,
    finished: (id, withinMs = 100_000) =>
      eventually(
        `job ${id} to finish`,
        async () => {
          const job = await api.job(id);
          const terminal = job.status === 'succeeded' || job.status === 'failed';
          return terminal && job.charged_usd !== null ? job : undefined;
        },
        { withinMs, everyMs: 60 },
      ),
    balance: async () => good(await api.get('/balance')) as Balance,
  };
  return api;
}

/** Failure test for {@link askFairly}. */
export const isFailure = ({ status }: Answer): boolean => status >= 500;

export async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parse(text) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function good(answer: Answer): unknown {
  if (answer.status !== 200) throw new Error(`answered ${answer.status} ${answer.text}`);
  return answer.body;
}
