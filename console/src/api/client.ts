/** A refusal of the API, or the lack of an answer (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** Seconds after which to try again; undefined: nobody said. */
  readonly retryAfter: number | undefined;
  constructor(status: number, code: string, message: string, retryAfter?: number) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

const BASE = '/api/v1';

/** Called when the API says that the session has ended. */
let onSignedOut = () => {};
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

export interface Call {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly body?: unknown;
  /** API key of a sign-in, which is not kept. Default: the cookie of the session. */
  readonly apiKey?: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Calls the API as a page of the console.
 * @throws ApiError
 */
export async function call<Answer>(
  path: string,
  { method = 'GET', body, apiKey, signal }: Call = {},
): Promise<Answer> {
  const headers: Record<string, string> = { 'Semblance-Console': '1' };
  if (apiKey !== undefined) headers.Authorization = `Bearer ${apiKey}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers,
      credentials: 'same-origin',
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'unreachable', '');
  }
  const answer: unknown = await response.json().catch(() => undefined);
  if (response.ok) return answer as Answer;
  const { code = 'unreachable', message = '' } =
    (answer as { error?: { code?: string; message?: string } } | undefined)?.error ?? {};
  if (response.status === 401 && apiKey === undefined) onSignedOut();
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
  throw new ApiError(response.status, code, message, Number.isFinite(seconds) ? seconds : undefined);
}

/** Returns a query with the parameters that have a value. */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | number | undefined | null>>,
): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== '',
  );
  const text = new URLSearchParams(
    given.map(([name, value]): [string, string] => [name, String(value)]),
  ).toString();
  return text ? `${path}?${text}` : path;
}
