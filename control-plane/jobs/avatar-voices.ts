import { ApiError } from '@semblance/common/errors';
import { hasVoice, joined, languageFor, type Speech } from '@semblance/engine-api/speech';
import type { AvatarVoice, ListAvatarVoicesResponse } from '@semblance/proto/semblance/control/v1/control';
import type { Sql } from '../storage/sql.ts';
import type { Submission } from './submission.ts';

/** Most voices that a message names; the list has all. */
const MAX_NAMED = 30;
/** Most languages that a message names: more than espeak-ng has. */
const MAX_LANGUAGES = 250;
const ALL = 'GET /voices?for=avatar lists all.';

/**
 * Checks the voice and the language of an Avatar submit against those that agents announced last (see
 * `createVoicesSeen`). Where an agent does not tell its voices, or none was ever seen, any may be right, and the engine
 * decides. A repeat is not checked again: it finds its job.
 * @throws ApiError invalid_input naming what is valid
 */
export async function checkVoice(
  sql: Sql,
  {
    accountId,
    capability,
    parameters,
    idempotencyKey,
  }: Pick<Submission, 'accountId' | 'capability' | 'parameters' | 'idempotencyKey'>,
): Promise<void> {
  const { voice_id: voiceId, language } = parameters;
  if (capability !== 'avatar' || (voiceId === undefined && language === undefined)) return;
  const speech = await announced(sql);
  if (!speech) return;
  const faults = [
    ...(voiceId === undefined || hasVoice(speech, voiceId) ? [] : [voiceFault(speech, voiceId)]),
    ...(language === undefined || languageFor(new Set(speech.languages), language) !== undefined
      ? []
      : [languageFault(speech)]),
  ];
  if (faults.length === 0 || (await isRepeat(sql, accountId, idempotencyKey))) return;
  throw new ApiError('invalid_input', faults.join(' '));
}

/** Returns the voices that may be asked for; undefined when any may be there. */
async function announced(sql: Sql): Promise<Speech | undefined> {
  const rows = await sql<{ speech: Speech | null }[]>`select speech from announced_voices order by source`;
  const told = rows.flatMap(({ speech }) => (speech ? [speech] : []));
  return rows.length > 0 && told.length === rows.length ? joined(told) : undefined;
}

async function isRepeat(sql: Sql, accountId: string, key: string | undefined): Promise<boolean> {
  if (key === undefined) return false;
  const rows = await sql`select 1 from idempotency_keys where account_id = ${accountId} and key = ${key}`;
  return rows.length > 0;
}

function voiceFault({ voices }: Speech, asked: string): string {
  const named = voices.slice(0, MAX_NAMED).map(({ id }) => id);
  const more = voices.length - named.length;
  const rest = more > 0 ? ` and ${more} more; ${ALL}` : '.';
  const like = voices.find(({ id }) => id.toLowerCase() === asked.toLowerCase());
  return `\`voice_id\` names no voice that an agent has${like ? `; did you mean ${like.id}?` : '.'} There are ${named.join(', ')}${rest}`;
}

function languageFault({ languages }: Speech): string {
  return `\`language\` is none that an agent speaks; it is a language tag such as ${languages.includes('en') ? 'en' : languages[0]}. There are ${languages.slice(0, MAX_LANGUAGES).join(', ')}.`;
}

/** Lists the voices that agents announced for Avatar, in the order in which engines name them. */
export async function listAvatarVoices(sql: Sql): Promise<ListAvatarVoicesResponse> {
  const rows = await sql<{ speech: Speech | null }[]>`select speech from announced_voices order by source`;
  const { voices, variants = [] } = joined(rows.flatMap(({ speech }) => (speech ? [speech] : [])));
  const endings = new Map(variants.map((list) => [list.name, list.endings]));
  return {
    voices: voices.map(({ id, language, gender, variants: list }): AvatarVoice => {
      const own = list === undefined ? [] : (endings.get(list) ?? []);
      return { id, language, gender, variants: own.map((ending) => `${id}${ending}`) };
    }),
  };
}
