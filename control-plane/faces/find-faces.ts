import { Readable } from 'node:stream';
import { ApiError } from '@semblance/common/errors';
import { call } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { isObjectKey } from '@semblance/common/object-key';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { LOOK_VALUES, MAX_PEOPLE } from '@semblance/engine-api/people';
import type { ObjectStore } from '@semblance/objects/store';
import type {
  FindPeopleRequest,
  FindPeopleResponse,
  FoundPerson,
} from '@semblance/proto/semblance/agent/v1/inspection';
import {
  type AgentCalls,
  askAgents,
  busy,
  createAccountTurns,
  withInspectionClient,
} from '../inspections/ask-agents.ts';
import { readyFor } from '../inspections/ready-agents.ts';
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
/** Most searches of one account that wait for the one under way. */
const MAX_WAITING = 8;
/** Most bytes of a crop. */
const MAX_CROP = 256 * 1024;
const QUESTION = {
  task: 'search for faces',
  noRoom: 'No agent has room for a search for faces.',
  unsupported: 'No engine of this installation finds faces in such files.',
};

/** Asks one agent. @throws ServiceError */
export type AskForPeople = (
  address: string,
  request: FindPeopleRequest,
  signal: AbortSignal,
  agent: GpuAgent,
) => Promise<FindPeopleResponse>;

export interface FaceFinderOptions extends AgentCalls {
  readonly database: Database;
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly objects: Pick<ObjectStore, 'signGet' | 'put'>;
  readonly removals: Pick<Removals, 'payNow'>;
  readonly logger: Logger;
  /** Default: over gRPC. */
  readonly ask?: AskForPeople | undefined;
  /** Default {@link SEARCH_MS}. */
  readonly limitMs?: number | undefined;
  /** Longest wait for an agent with room, in ms. Default: some seconds. */
  readonly roomWaitMs?: number | undefined;
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
  const ask = options.ask ?? askOverGrpc(options);
  const inTurn = createAccountTurns({
    maxWaiting: MAX_WAITING,
    limitMs,
    tooMany: 'This account has too many searches for faces under way.',
    tooLong: 'The search for faces took too long.',
  });

  async function search(accountId: string, fileKey: string, upload: SearchedUpload, signal: AbortSignal) {
    const kind = upload.kind === 'video' || upload.animated ? 'video' : 'image';
    const url = await options.objects.signGet(fileKey, {
      expiresInSeconds: LINK_SECONDS,
      audience: 'internal',
    });
    const request = { searchId: newId(''), kind, file: { url, maxBytes: 0n, key: fileKey } };
    const ready = readyFor(options.agents.list(), kind === 'image' ? 'face-swap-image' : 'face-swap');
    if (ready.length === 0) throw busy(QUESTION.noRoom);
    const answer = await askAgents(
      ready,
      (address, agent) => ask(address, request, signal, agent),
      QUESTION,
      { logger: options.logger, signal, roomWaitMs: options.roomWaitMs },
    );
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
    return inTurn(accountId, caller, async (signal) => {
      // The search ahead may have been the same one.
      const meanwhile = await found();
      if (meanwhile) return meanwhile;
      const upload = (await readUpload(database.fast, accountId, fileKey)) as SearchedUpload;
      await search(accountId, fileKey, upload, signal);
      const now = await found();
      if (!now) throw new Error('faces that were found were not kept');
      return now;
    });
  };
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

function askOverGrpc(calls: AgentCalls): AskForPeople {
  return (address, request, signal, agent) =>
    withInspectionClient(calls, { address, agent, signal }, (client) =>
      call(client.findPeople.bind(client), request, { timeoutMs: SEARCH_MS, signal }),
    );
}
