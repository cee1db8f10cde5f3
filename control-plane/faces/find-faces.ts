import { Readable } from 'node:stream';
import { type ServiceError, status } from '@grpc/grpc-js';
import { certificateOf } from '@semblance/common/agent-certificate';
import { raceAbort } from '@semblance/common/async/abort';
import { ApiError, describeError, isApiErrorCode } from '@semblance/common/errors';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { newId } from '@semblance/common/ids';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { isObjectKey } from '@semblance/common/object-key';
import { clip } from '@semblance/common/plain-text';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { LOOK_VALUES, MAX_PEOPLE } from '@semblance/engine-api/people';
import type { ObjectStore } from '@semblance/objects/store';
import {
  type FindPeopleRequest,
  type FindPeopleResponse,
  type FoundPerson,
  InspectionServiceClient,
} from '@semblance/proto/semblance/agent/v1/inspection';
import type { Callees } from '../agents/callee.ts';
import { readyFor } from '../inspections/ready-agents.ts';
import { createTurns } from '../inspections/turns.ts';
import type { Removals } from '../media/removals.ts';
import type { Database } from '../storage/database.ts';
import {
  cropKeyOf,
  type FaceRow,
  type FoundFaces,
  faceIdOf,
  keepFaces,
  readFaces,
  readUpload,
  type SearchedUpload,
} from './face-rows.ts';

/** Longest time of a search with all its waits, in ms. */
const SEARCH_MS = 25_000;
const LINK_SECONDS = 60;
/** Agents asked for one search. */
const MAX_AGENTS = 3;
/** Most searches of one account that wait for the one under way. */
const MAX_WAITING = 8;
/** Most bytes of a crop. */
const MAX_CROP = 256 * 1024;
const RETRY_SECONDS = 5;

/** Asks one agent. @throws ServiceError */
export type AskForPeople = (
  address: string,
  request: FindPeopleRequest,
  signal: AbortSignal,
  agent: GpuAgent,
) => Promise<FindPeopleResponse>;

export interface FaceFinderOptions {
  readonly database: Database;
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly objects: Pick<ObjectStore, 'signGet' | 'put'>;
  readonly removals: Pick<Removals, 'payNow'>;
  readonly logger: Logger;
  /** Default: over gRPC. */
  readonly ask?: AskForPeople | undefined;
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly checkAddress?: Callees['checkAddress'] | undefined;
  /** Default {@link SEARCH_MS}. */
  readonly limitMs?: number | undefined;
}

/** The faces of an upload, and when it goes. */
export interface FacesOfUpload extends FoundFaces {
  readonly until: SearchedUpload['until'];
}

/**
 * Returns the people of an upload. They are searched once; after that, the answer is what was kept.
 * @throws ApiError invalid_input, unsupported_format, input_too_large, at_capacity; the caller's reason
 */
export type FindFaces = (accountId: string, fileKey: string, caller: AbortSignal) => Promise<FacesOfUpload>;

export function createFindFaces(options: FaceFinderOptions): FindFaces {
  const { database, limitMs = SEARCH_MS } = options;
  const inTurn = createTurns();
  const waiting = new Map<string, number>();

  async function search(accountId: string, fileKey: string, upload: SearchedUpload, signal: AbortSignal) {
    const kind = upload.kind === 'video' || upload.animated ? 'video' : 'image';
    const url = await options.objects.signGet(fileKey, {
      expiresInSeconds: LINK_SECONDS,
      audience: 'internal',
    });
    const request = { searchId: newId(''), kind, file: { url, maxBytes: 0n, key: fileKey } };
    const answer = await askAgents(options, request, kind, signal);
    const found = {
      kind,
      frames: Math.max(0, answer.frames),
      faces: rowsOf(fileKey, answer.people),
    } as const;
    await keep(accountId, fileKey, found, answer.people, signal);
  }

  /** Stores the crops, then the rows. Crops that get no row are owed their deletion. */
  async function keep(
    accountId: string,
    fileKey: string,
    found: Omit<FoundFaces, 'found_at'>,
    people: readonly FoundPerson[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const [place, { crop_key: key }] of found.faces.entries())
      await options.objects.put(key, Readable.from([Buffer.from((people[place] as FoundPerson).crop)]), {
        contentType: 'image/jpeg',
        signal,
      });
    const kept = await database.sql.begin((tx) => keepFaces(tx, { accountId, fileKey }, found));
    if (kept) return;
    const keys = found.faces.map(({ crop_key: key }) => key);
    await database.sql`
      insert into media_removals (object_key, kind, size_bytes, removed_by)
      select key, 'orphan', 0, 'retention' from unnest(${keys}::text[]) key on conflict do nothing`;
    await options.removals.payNow(keys);
  }

  return async (accountId, fileKey, caller) => {
    const found = async (): Promise<FacesOfUpload | undefined> => {
      const upload = isObjectKey(fileKey) ? await readUpload(database.fast, accountId, fileKey) : undefined;
      if (!upload) throw new ApiError('invalid_input', '`file_key` names no upload of yours.');
      if (upload.kind === 'audio')
        throw new ApiError('invalid_input', '`file_key` must be the key of a picture or a video.');
      const kept = await readFaces(database.fast, fileKey);
      return kept && { ...kept, until: upload.until };
    };
    const before = await found();
    if (before) return before;
    const ahead = waiting.get(accountId) ?? 0;
    if (ahead > MAX_WAITING) throw busy('This account has too many searches for faces under way.');
    waiting.set(accountId, ahead + 1);
    const late = AbortSignal.timeout(limitMs);
    const signal = AbortSignal.any([caller, late]);
    try {
      return await inTurn(accountId, signal, async () => {
        // The search ahead may have been the same one.
        const meanwhile = await found();
        if (meanwhile) return meanwhile;
        const upload = (await readUpload(database.fast, accountId, fileKey)) as SearchedUpload;
        await search(accountId, fileKey, upload, signal);
        const now = await found();
        if (!now) throw new Error('faces that were found were not kept');
        return now;
      });
    } catch (error) {
      caller.throwIfAborted();
      if (late.aborted) throw busy('The search for faces took too long.');
      throw error;
    } finally {
      const left = (waiting.get(accountId) ?? 1) - 1;
      if (left > 0) waiting.set(accountId, left);
      else waiting.delete(accountId);
    }
  };
}

const busy = (why: string) =>
  new ApiError('at_capacity', `${why} Ask again shortly.`, { retryAfterSeconds: RETRY_SECONDS });

/** Returns the first answer of the agents. @throws ApiError */
async function askAgents(
  options: FaceFinderOptions,
  request: FindPeopleRequest,
  kind: 'image' | 'video',
  signal: AbortSignal,
): Promise<FindPeopleResponse> {
  const ask = options.ask ?? askOverGrpc(options);
  const ready = readyFor(options.agents.list(), kind === 'image' ? 'face-swap-image' : 'face-swap');
  let unsupported = ready.length > 0;
  for (const agent of ready.slice(0, MAX_AGENTS)) {
    const address = agent.status?.address ?? '';
    try {
      const answer = await raceAbort(signal, ask(address, request, signal, agent));
      if (answer.refusal) throw refusedFile(answer.refusal);
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ApiError) throw error;
      // An agent of an earlier release has no such call.
      const { code } = error as ServiceError;
      if (code === status.UNIMPLEMENTED) continue;
      unsupported = false;
      if (code !== status.RESOURCE_EXHAUSTED)
        options.logger.warn({ address }, `cannot search for faces: ${describeError(error)}`);
    }
  }
  if (unsupported)
    throw new ApiError('capability_unavailable', 'No engine of this installation finds faces in such files.');
  throw busy('No agent has room for a search for faces.');
}

function refusedFile({ code, message }: { readonly code: string; readonly message: string }): ApiError {
  return new ApiError(isApiErrorCode(code) ? code : 'invalid_input', clip(message, 1_024));
}

/** Returns the rows of an agent's answer, as far as it can be believed. */
function rowsOf(fileKey: string, people: readonly FoundPerson[]): FaceRow[] {
  return people.slice(0, MAX_PEOPLE).map((person, place) => {
    const share = (value: number) => Math.min(1, Math.max(0, value)) || 0;
    const codes = (all: readonly string[]) =>
      all.filter((code) => /^[a-z][a-z_]{0,63}$/.test(code)).slice(0, 8);
    const { x, y, width, height, atUs, frames, look, crop } = person;
    if (Buffer.from(look, 'base64').length !== LOOK_VALUES || crop.length === 0 || crop.length > MAX_CROP)
      throw new Error('an agent answered a face that cannot be kept');
    const id = faceIdOf(fileKey, place);
    return {
      face_id: id,
      box: { x: share(x), y: share(y), width: share(width), height: share(height) },
      at_us: atUs < 0n ? 0n : atUs,
      frames: Math.max(0, frames),
      not_source: codes(person.notSource),
      not_target: codes(person.notTarget),
      look,
      crop_key: cropKeyOf(id),
      crop_bytes: BigInt(crop.length),
    };
  });
}

function askOverGrpc({ internalToken, tls, checkAddress }: FaceFinderOptions): AskForPeople {
  return async (address, request, signal, agent) => {
    await checkAddress?.(agent, signal);
    const secure = tls?.to('agent', certificateOf(agent));
    const client = createClient(InspectionServiceClient, address, internalToken, secure);
    try {
      return await call(client.findPeople.bind(client), request, { timeoutMs: SEARCH_MS, signal });
    } finally {
      client.close();
    }
  };
}
