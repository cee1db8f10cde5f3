import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The API refused a call; the message is the API's own. */
class ApiRefusal extends Error {
  override name = 'ApiRefusal';
  readonly code: string;
  readonly status: number;
  /** Wait that the service asks for, in ms; 0 when it asks for none. */
  readonly retryAfterMs: number;
  get retryable(): boolean {
    return this.status === 429 || this.status >= 500;
  }
  constructor(what: string, response: Response, code: string, message: string) {
    super(`${what}: ${message} (${code}, HTTP ${response.status})`);
    this.code = code;
    this.status = response.status;
    this.retryAfterMs = 1_000 * (Number(response.headers.get('retry-after')) || 0);
  }
}

export type Job = {
  id: string;
  status: 'queued' | 'processing' | 'succeeded' | 'failed';
  output_url: string | null;
  charged_usd: number | null;
  error: { code: string; message: string } | null;
};

/** Creates a client that calls the API as an integrator does: with an address, a key and fetch. */
export function createClient(options: {
  baseUrl: string;
  apiKey: string;
  signal: AbortSignal;
  say: (line: string) => void;
}) {
  const { baseUrl, apiKey, signal, say } = options;
  const authorization = `Bearer ${apiKey}`;

  /** Retries while the service is busy or down. Any other refusal is final. */
  const request = async <T>(what: string, url: string, init: RequestInit = {}): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        const headers = { authorization, ...(init.headers as Record<string, string>) };
        const response = await fetch(url, { ...init, headers, signal });
        if (response.ok) return (await response.json()) as T;
        const body = (await response.json().catch(() => undefined)) as {
          error?: { code: string; message: string };
        };
        const { code = 'unknown', message = 'no explanation' } = body?.error ?? {};
        throw new ApiRefusal(what, response, code, message);
      } catch (error) {
        signal.throwIfAborted();
        const retryable = error instanceof ApiRefusal ? error.retryable : error instanceof TypeError;
        if (!retryable || attempt >= 8) throw error;
        const retryAfterMs = error instanceof ApiRefusal ? error.retryAfterMs : 0;
        if (retryAfterMs > 0)
          say(`Waiting ${retryAfterMs / 1_000} s, as the service asks: ${(error as Error).message}`);
        await delay(Math.max(retryAfterMs, Math.min(10_000, 250 * 2 ** attempt)), undefined, { signal });
      }
    }
  };

  return {
    /** Uploads a file and returns its key. */
    async upload(file: string): Promise<string> {
      const form = new FormData();
      form.append('file', new Blob([await readFile(file)], { type: typeOf(file) }), basename(file));
      const label = `uploading ${file}`;
      return (
        await request<{ file_key: string }>(label, `${baseUrl}/uploads`, { method: 'POST', body: form })
      ).file_key;
    },
    /** Submits a Photo Swap. Repeating it with the same `idempotencyKey` makes no second job. */
    submitPhotoSwap(keys: { image_key: string; face_key: string }, idempotencyKey: string) {
      return request<{ id: string; status: string; status_url: string }>(
        'submitting the job',
        `${baseUrl}/face-swap-image`,
        {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
          body: JSON.stringify(keys),
        },
      );
    },
    job: (statusUrl: string) => request<Job>('reading the job', new URL(statusUrl, baseUrl).href),
    balance: () => request<{ balance_usd: number }>('reading the balance', `${baseUrl}/balance`),
    /** Downloads an output. Its link needs no key. */
    async download(url: string): Promise<{ bytes: Uint8Array; type: string }> {
      const response = await fetch(url, { signal });
      if (!response.ok)
        throw new ApiRefusal('downloading the output', response, 'unknown', await response.text());
      const type = response.headers.get('content-type')?.split(';')[0] ?? 'application/octet-stream';
      return { bytes: new Uint8Array(await response.arrayBuffer()), type };
    },
  };
}

const TYPES: Record<string, string> = {
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.png': 'image/png',
  '.webp': 'image/webp',
};

function typeOf(file: string): string {
  return TYPES[extname(file).toLowerCase()] ?? 'application/octet-stream';
}

/** Returns the file name extension, with its dot, of an image type; `.bin` for any other type. */
export function extensionOf(type: string): string {
  return Object.entries(TYPES).find(([, candidate]) => candidate === type)?.[0] ?? '.bin';
}
