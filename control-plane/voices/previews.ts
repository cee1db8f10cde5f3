import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { certificateOf } from '@semblance/common/agent-certificate';
import { backoffMs } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { type Voice, voiceDefinition } from '@semblance/common/voices/voice';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { ObjectStore } from '@semblance/objects/store';
import { VoiceServiceClient } from '@semblance/proto/semblance/live/v1/live';
import type { Callees } from '../agents/callee.ts';
import type { Chore } from '../chores/chores.ts';
import type { Database } from '../storage/database.ts';
import { offeredVoices, soundOf } from './catalogue.ts';

/** Prefix of previews in the object store; housekeeping removes those without a row. */
export const PREVIEWS_PREFIX = 'voices/';
const CONTENT_TYPE = 'audio/wav';
/** Far more than four seconds take. */
const MAX_BYTES = 1 << 20;
/** Longest pause after failures of one preview. */
const MAX_RETRY_MS = 3_600_000;
/** Agents asked for one preview before it is put off. */
const MAX_AGENTS = 3;
const CALL_MS = 70_000;
/** Longest time of a round, which bounds its lease. */
const ROUND_MS = 120_000;
/** Time after which a preview that no process wants is forgotten. */
const UNWANTED_SECONDS = 3_600;

/** Asks one agent for a preview; returns the file. */
export type AskForPreview = (
  address: string,
  definition: string,
  signal: AbortSignal,
  agent: GpuAgent,
) => Promise<Uint8Array>;

export interface PreviewsOptions {
  readonly database: Database;
  readonly objects: ObjectStore;
  /** Voices from files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly agents: Pick<Reflector<GpuAgent>, 'list' | 'hasSynced'>;
  readonly logger: Logger;
  /** Default: over gRPC. */
  readonly ask?: AskForPreview | undefined;
  /** Sent to agents with every call. */
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly checkAddress?: Callees['checkAddress'] | undefined;
  readonly pace?: PreviewPace | undefined;
}

export interface PreviewPace {
  /** Pause after the first failure of a preview, doubled up to an hour. Default 30 s. */
  readonly retryMs?: number;
  /** Pause between two rounds. Default {@link PREVIEW_LOOK_MS}. */
  readonly everyMs?: number;
}

/** Delay after which an added voice is listed, plus a second for each that waits with it, in ms. */
export const PREVIEW_LOOK_MS = 5_000;

/**
 * Makes the missing samples of voices, one after the other, with any agent that is ready to carry voices. Each
 * round reads anew what is missing: an added or changed voice is found, and a dead process leaves nothing but an
 * object without a row.
 */
export function createPreviewChore(options: PreviewsOptions): Chore {
  const { database, objects, voices, agents, logger } = options;
  const { retryMs = 30_000, everyMs = PREVIEW_LOOK_MS } = options.pace ?? {};
  const { sql } = database;
  const ask = options.ask ?? askOverGrpc(options);

  /** Returns voices by their sound. Records what is wanted, and forgets what was not for long. */
  async function wanted(): Promise<ReadonlyMap<string, Voice>> {
    const bySound = new Map<string, Voice>();
    for (const { voice } of await offeredVoices({ files: voices, sql })) bySound.set(soundOf(voice), voice);
    await sql`
      insert into voice_previews as p (sound) select unnest(${[...bySound.keys()]}::text[])
      on conflict (sound) do update set wanted_at = now() where p.wanted_at < now() - interval '1 minute'`;
    await sql`
      delete from voice_previews where wanted_at < now() - ${UNWANTED_SECONDS} * interval '1 second'`;
    return bySound;
  }

  /** Returns the first answer of the agents, in any order. @throws the last error */
  async function askAgents(voice: Voice, signal: AbortSignal): Promise<Uint8Array> {
    const definition = JSON.stringify(voiceDefinition(voice));
    let failure: unknown = new Error('no agent is ready to carry voices');
    for (const agent of shuffled(readyForVoice(agents.list())).slice(0, MAX_AGENTS)) {
      const address = agent.status?.address ?? '';
      try {
        const wav = await ask(address, definition, signal, agent);
        if (isWav(wav)) return wav;
        throw new Error(`what the agent at ${address} sent is no WAV file of ${MAX_BYTES} bytes at most`);
      } catch (error) {
        signal.throwIfAborted();
        failure = error;
      }
    }
    throw failure;
  }

  async function make(sound: string, voice: Voice, signal: AbortSignal): Promise<void> {
    const wav = await askAgents(voice, signal);
    // A new name, because an earlier object may be on its way out.
    const key = `${PREVIEWS_PREFIX}${sound}-${randomBytes(4).toString('hex')}.wav`;
    await objects.put(key, Readable.from([Buffer.from(wav)]), { contentType: CONTENT_TYPE, signal });
    await sql`
      update voice_previews set object_key = ${key}, made_at = now(), last_error = null
      where sound = ${sound} and object_key is null`;
    logger.info({ voice: voice.id, key }, 'created a preview of a voice');
  }

  async function putOff(sound: string, attempts: number, error: unknown): Promise<void> {
    const reason = describeError(error).replaceAll('\0', '').slice(0, 500);
    const seconds = backoffMs(attempts, retryMs, MAX_RETRY_MS) / 1_000;
    await sql`
      update voice_previews set attempts = attempts + 1, last_error = ${reason},
                                due_at = now() + ${seconds} * interval '1 second'
      where sound = ${sound}`;
  }

  return {
    name: 'voice previews',
    everySeconds: everyMs / 1_000,
    leaseSeconds: (ROUND_MS + CALL_MS * MAX_AGENTS) / 1_000,
    async work(signal) {
      const bySound = await wanted();
      if (!agents.hasSynced || readyForVoice(agents.list()).length === 0) return { made: 0 };
      // A pause longer than its failures cause dates from before the clock was set back.
      const due = await sql<{ sound: string; attempts: number }[]>`
        select sound, attempts from voice_previews
        where object_key is null
          and (due_at <= now()
               or due_at > now() + least(${MAX_RETRY_MS}::float8, ${retryMs}::float8 * 2 ^ least(attempts, 30))
                                   * interval '1 millisecond')
          and sound = any(${[...bySound.keys()]}::text[])
        order by attempts, sound`;
      const until = Date.now() + ROUND_MS;
      let made = 0;
      for (const { sound, attempts } of due) {
        const voice = bySound.get(sound);
        if (!voice || Date.now() > until) continue;
        try {
          await make(sound, voice, signal);
          made++;
        } catch (error) {
          signal.throwIfAborted();
          logger.warn({ voice: voice.id, attempts }, `cannot create a preview: ${describeError(error)}`);
          await putOff(sound, attempts, error);
        }
      }
      return { made, left: due.length - made };
    },
  };
}

/** Returns the agents that can carry a voice session. */
function readyForVoice(all: readonly GpuAgent[]): GpuAgent[] {
  return all.filter(({ status }) => {
    const ready = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    const carries = status?.live?.some(({ name, slots }) => name === 'voice' && slots > 0);
    return Boolean(status?.address && ready && carries && !status.draining);
  });
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}

function isWav(bytes: Uint8Array): boolean {
  const name = (at: number) => Buffer.from(bytes.subarray(at, at + 4)).toString('latin1');
  return bytes.length > 44 && bytes.length <= MAX_BYTES && name(0) === 'RIFF' && name(8) === 'WAVE';
}

function askOverGrpc({ internalToken, tls, checkAddress }: PreviewsOptions): AskForPreview {
  return async (address, voice, signal, agent) => {
    await checkAddress?.(agent, signal);
    const secure = tls?.to('agent', certificateOf(agent));
    const client = createClient(VoiceServiceClient, address, internalToken, secure);
    try {
      const request = { voice };
      return (await call(client.previewVoice.bind(client), request, { timeoutMs: CALL_MS, signal })).wav;
    } finally {
      client.close();
    }
  };
}
