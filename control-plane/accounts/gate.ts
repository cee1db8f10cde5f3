import { isIP } from 'node:net';
import type { Metadata } from '@grpc/grpc-js';
import { createClientLog } from '@semblance/common/client-log';
import { ApiError } from '@semblance/common/errors';
import { type Logger, silentLogger } from '@semblance/common/logging';
import { SCOPES } from '@semblance/common/scopes';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { LRUCache } from 'lru-cache';
import { type Batcher, createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { keysOfSessions } from './console-sessions.ts';
import {
  type Admission,
  type Counted,
  countCalls,
  type Found,
  findKeys,
  type Keyed,
  type NotTaken,
} from './key-calls.ts';

/** Trailing metadata with the rest of the caller's rate limit: `limit=60,remaining=59,reset=32`. */
export const RATE_LIMIT_KEY = 'semblance-ratelimit';

/**
 * Unknown keys that are remembered, and for how long in ms. A key that was once unknown stays so, because keys are made
 * at random and a revocation is final; forgetting costs one question to the database.
 */
const UNKNOWN_KEYS = 10_000;
const UNKNOWN_MS = 10_000;

export type { Admission } from './key-calls.ts';

/** One call that asks for admission. */
export interface Ask {
  readonly caller: Caller | undefined;
  /** A job to be read with it. */
  readonly jobId?: string | undefined;
}

/** The decision about one call, and the rest of its rate limit; `rateLimit` is empty where none applied. */
export type Verdict = { readonly rateLimit: string } & (
  | { readonly admission: Admission; readonly refusal?: undefined }
  | { readonly refusal: ApiError; readonly admission?: undefined }
);

export interface Gate {
  /**
   * Authenticates calls, counts them and reads the jobs they ask for. All waiting calls, of any message, share one
   * statement.
   * @returns a verdict for each, in their order; a refusal is `unauthorized`, `forbidden` or `rate_limited`
   * @throws ApiError internal_error
   */
  admitAll(asks: readonly Ask[]): Promise<readonly Verdict[]>;
  /**
   * Does the same for one call. The rest of the limit is set in the trailers whether the call is admitted or
   * refused.
   * @throws ApiError unauthorized, forbidden, rate_limited, internal_error
   */
  admit(caller: Caller | undefined, trailers: Metadata, jobId?: string): Promise<Admission>;
  /** Authenticates a call and counts nothing. @throws ApiError unauthorized, forbidden, internal_error */
  check(caller: Caller | undefined): Promise<void>;
}

/** Most calls counted by one statement. */
const MAX_CALLS = 1024;

/** @param logger for keys that exist and are not taken, whose callers learn no more than of unknown ones */
export function createGate(database: Database, logger: Logger = silentLogger()): Gate {
  const log = createClientLog(logger);
  // The calls of one message are one entry, so that a message costs one turn through the batcher.
  const batcher: Batcher<readonly Keyed[], (Counted | NotTaken | undefined)[]> = createBatcher({
    deadlineMs: database.deadlineMs,
    maxSize: MAX_CALLS,
    sizeOf: (calls) => calls.length,
    // While one statement's rows are counted the next is on its way; for the same key it waits there for the lock.
    concurrency: 2,
    async run(messages) {
      const counted = await countCalls(database, messages.flat());
      return messages.map(({ length }) => counted.splice(0, length));
    },
  });

  const unknown = new LRUCache<string, true>({ max: UNKNOWN_KEYS, ttl: UNKNOWN_MS });

  const valid = createBatcher<Keyed, Found | undefined>({
    deadlineMs: database.deadlineMs,
    run: (calls) => findKeys(database, calls),
  });

  function note({ fault, keyId }: NotTaken, caller: Caller | undefined): void {
    const reason = fault === 'expired' ? 'it has expired' : 'it is not for the address of the call';
    log.warn(`${fault} ${keyId}`, { keyId, address: caller?.address }, `refused an API key: ${reason}`);
  }

  const sessions = createBatcher<string, string | undefined>({
    deadlineMs: database.deadlineMs,
    async run(hashes) {
      const keys = await keysOfSessions(database, hashes);
      return hashes.map((hash) => keys.get(hash));
    },
  });

  /** Returns the hash of the key that a call acts with, in hex; undefined: there is none. */
  async function hashOf(caller: Caller | undefined): Promise<string | undefined> {
    const session = caller?.sessionSha256;
    if (session === undefined) return hexOf(caller?.keySha256);
    const hash = hexOf(session);
    if (hash === undefined || unknown.has(hash)) return undefined;
    const key = await sessions.submit(hash);
    if (key === undefined) unknown.set(hash, true);
    return key;
  }

  async function admitAll(asks: readonly Ask[]): Promise<Verdict[]> {
    const hashes = asks.some(({ caller }) => caller?.sessionSha256 !== undefined)
      ? await Promise.all(asks.map(({ caller }) => hashOf(caller)))
      : asks.map(({ caller }) => hexOf(caller?.keySha256));
    const keyed: Keyed[] = [];
    const places = asks.map(({ caller, jobId }, i) => {
      const hash = hashes[i];
      if (hash === undefined || unknown.has(hash)) return undefined;
      return keyed.push({ hash, jobId, address: addressIn(caller) }) - 1;
    });
    const counted = keyed.length ? await batcher.submit(keyed) : [];
    for (const [i, { hash }] of keyed.entries()) if (!counted[i]) unknown.set(hash, true);
    return asks.map(({ caller }, i) => {
      const place = places[i];
      const result = place === undefined ? undefined : counted[place];
      if (result?.fault) note(result, caller);
      return verdictOn(caller, result?.fault ? undefined : result);
    });
  }

  return {
    admitAll,
    async admit(caller, trailers, jobId) {
      const [verdict] = await admitAll([{ caller, jobId }]);
      if (!verdict) throw new Error('a call got no verdict');
      if (verdict.rateLimit) trailers.set(RATE_LIMIT_KEY, verdict.rateLimit);
      if (verdict.refusal) throw verdict.refusal;
      return verdict.admission;
    },
    async check(caller) {
      const hash = await hashOf(caller);
      if (hash !== undefined && !unknown.has(hash)) {
        const found = await valid.submit({ hash, jobId: undefined, address: addressIn(caller) });
        if (!found) unknown.set(hash, true);
        else if (found.fault) note({ fault: found.fault, keyId: found.key_id }, caller);
        else {
          const refusal = scopeRefusal(caller, found.scopes);
          if (refusal) throw refusal;
          return;
        }
      }
      throw unauthorized(caller);
    },
  };
}

/** Returns a hash in hex; undefined for what none is. */
function hexOf(hash: Uint8Array | undefined): string | undefined {
  return hash?.length === HASH_BYTES ? Buffer.from(hash).toString('hex') : undefined;
}

/** Returns whether a call names a key, or a session of the console. */
export function isNamed(caller: Caller | undefined): caller is Caller {
  return caller !== undefined && (caller.keySha256.length > 0 || caller.sessionSha256 !== undefined);
}

function unauthorized(caller: Caller | undefined): ApiError {
  const message = !isNamed(caller)
    ? 'An API key is required.'
    : caller.sessionSha256 === undefined
      ? 'The API key is not known or was revoked.'
      : 'The session of the console has ended. Sign in again.';
  return new ApiError('unauthorized', message);
}

/** Returns the address of a call; null when it is unknown, as from a gateway of an earlier release. */
function addressIn(caller: Caller | undefined): string | null {
  return caller?.address !== undefined && isIP(caller.address) ? caller.address : null;
}

/** Returns the refusal of a call whose key lacks the scope. A gateway of an earlier release names none, and may need any. */
function scopeRefusal(caller: Caller | undefined, scopes: readonly string[]): ApiError | undefined {
  const needed = caller?.scope === undefined ? SCOPES : [caller.scope];
  const lacking = needed.filter((scope) => !scopes.includes(scope));
  if (lacking.length === 0) return undefined;
  const names = lacking.map((scope) => `"${scope}"`).join(', ');
  return new ApiError(
    'forbidden',
    `This key lacks the scope ${names}. It has ${scopes.map((scope) => `"${scope}"`).join(', ')}.`,
  );
}

/** Returns those of the keys that are still valid. Counts nothing. @throws Error when the database does not answer */
export async function usableKeys(
  database: Database,
  keyIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await database.fast<{ id: string }[]>`
    select id from api_keys where id = any(${keyIds}::text[]) and revoked_at is null
      and (expires_at is null or expires_at > now())`;
  return new Set(rows.map(({ id }) => id));
}

const HASH_BYTES = 32;

function verdictOn(caller: Caller | undefined, counted: Counted | undefined): Verdict {
  if (!counted) return { rateLimit: '', refusal: unauthorized(caller) };
  const { admission, limit, place, resetSeconds, scopes } = counted;
  const rateLimit = `limit=${limit},remaining=${Math.max(0, limit - place)},reset=${resetSeconds}`;
  const refusal = place <= limit ? scopeRefusal(caller, scopes) : tooMany(limit, resetSeconds);
  return refusal ? { rateLimit, refusal } : { rateLimit, admission };
}

function tooMany(limit: number, resetSeconds: number): ApiError {
  const message = `This key may send ${limit} requests a minute. Try again in ${resetSeconds} s.`;
  return new ApiError('rate_limited', message);
}
