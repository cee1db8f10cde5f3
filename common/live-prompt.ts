import { isObjectKey } from './object-key.ts';

/** Prompt of a Live Swap Pro session without a prompt of its own. It asks for the default character. */
export const DEFAULT_LIVE_PROMPT =
  'Replace the face of the person in view and leave everything else as it is.';

/** Id of the character whose face the default prompt applies. */
export const DEFAULT_CHARACTER = 'astronaut';

/** The face that a prompt asks for. */
export type Look =
  | { readonly kind: 'character'; readonly name: string }
  | { readonly kind: 'upload'; readonly fileKey: string }
  /**
   * Keeps the caller's own face. `reason` is a sentence for the caller. `fault` says what is wrong with the prompt;
   * undefined: it asks for the own face.
   */
  | { readonly kind: 'own'; readonly reason: string; readonly fault?: string };

const QUOTES = /["'`´‘’‚‛“”„‟«»‹›「」『』]/gu;
/** Matches a file_key anywhere in the text, but not the end of an address or of a longer word. */
const KEY = /(?<![\p{L}\p{N}._~:/\\-])api(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/gu;
/** Matches `character: admiral` anywhere in the text. */
const NAMED = /(?<![\p{L}\p{N}_-])character ?[:=] ?([\p{L}\p{N}_-]+)/gu;
const POLITE = /^(?:please |(?:can|could|would) you (?:please )?|i(?: want| would like|d like) to )/u;
/** Matches a request for a character in a prompt that says nothing else. */
const ASKS = new RegExp(
  `^(?:${[
    '(?:make|have) me look like',
    '(?:become|be|play|use|wear|try)',
    '(?:make|turn|change|transform|swap) (?:me|my face|the face|the person)(?: into| to| with| for| as)?',
    '(?:replace|swap) (?:me|my face|the face|the person|the face of the person in view) (?:with|by|for)',
    '(?:look|appear) (?:like|as)',
    'put on',
    'as',
  ].join('|')}) (.+)$`,
  'u',
);
const ARTICLE =
  /^(?:(?:the|an?) )?(?:(?:face|look) of (?:(?:the|an?) )?)?(?:character )?(.+?)(?: character)?$/u;
const OWN = /^(?:keep (?:me|my (?:own )?face)(?: as (?:i am|it is))?|my own face|no (?:swap|change)|none)$/u;
/** Allowed form of an id in a character pack. */
export const CHARACTER_ID = /^[a-z0-9][a-z0-9-]{0,63}$/;
const MAX_WORDS = 4;
/** Longest prompt that the API accepts, in Unicode code points. */
const MAX_CHARACTERS = 2000;

const KEPT = 'Your own face is kept';

/**
 * Returns the face that a Live Swap Pro prompt asks for. Never fails: a prompt that is not understood keeps the
 * caller's own face and says so. Case, quotes, spaces and punctuation at the end do not matter. A prompt with two
 * different faces keeps the caller's own, because a choice would be a guess.
 * @param known ids of the existing characters. Without them any id is accepted, and a wrong id is found when the
 * stream opens.
 */
export function readPrompt(prompt: string | null | undefined, known?: Iterable<string>): Look {
  if (prompt && prompt.length > MAX_CHARACTERS && [...prompt].length > MAX_CHARACTERS)
    return own(`the prompt is longer than ${MAX_CHARACTERS.toLocaleString('en')} characters.`);
  // Copied text often contains invisible characters (zero-width, direction marks).
  const text = (prompt ?? '')
    .replace(/\p{Cf}/gu, '')
    .replace(/[\p{Cc}\p{Z}]+/gu, ' ')
    .trim();
  const plain = plainText(text);
  if (text === '' || plain === plainText(DEFAULT_LIVE_PROMPT))
    return { kind: 'character', name: DEFAULT_CHARACTER };
  const keys = new Set(
    Array.from(text.matchAll(KEY), ([key]) => key.replace(/\.+$/, '')).filter(isObjectKey),
  );
  const named = new Set(Array.from(plain.matchAll(NAMED), ([, name]) => name as string));
  if (keys.size + named.size > 1)
    return own('the prompt names more than one face; name one character or one file_key.');
  const [key] = keys;
  if (key !== undefined) return { kind: 'upload', fileKey: key };
  if (OWN.test(plain)) return { kind: 'own', reason: `${KEPT}: the prompt asks for it.` };
  const [name] = named.size > 0 ? named : namesAsked(plain);
  const ids = known && [...known];
  const list = ids ? `: ${ids.join(', ')}` : '';
  if (name === undefined)
    return own(
      `the prompt was not understood. Write “character: ” and the name of a character${list}; or the file_key of an uploaded picture.`,
    );
  if (!CHARACTER_ID.test(name) || ids?.includes(name) === false)
    return own(`there is no such character. Write “character: ” and the name of one${list}.`);
  return { kind: 'character', name };
}

function own(why: string): Look {
  return { kind: 'own', reason: `${KEPT}: ${why}`, fault: `${why.charAt(0).toUpperCase()}${why.slice(1)}` };
}

/** Returns the text in lower case with single spaces, without quotes and final punctuation. */
function plainText(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replace(QUOTES, '')
    .replace(/\s+/gu, ' ')
    .replace(/[\s.!?…。！？,;:]+$/u, '')
    .trim();
}

/**
 * Returns the character that the sentence asks for, with its words joined as in an id; an empty list if it says
 * anything else.
 */
function namesAsked(plain: string): string[] {
  const words = ASKS.exec(plain.replace(POLITE, ''))?.[1];
  const name = words && ARTICLE.exec(words.replace(/[ ,]+please$/u, ''))?.[1];
  if (!name || /^(?:the|an?)$/.test(name)) return [];
  const parts = name.split(' ');
  return parts.length > MAX_WORDS ? [] : [parts.join('-')];
}
