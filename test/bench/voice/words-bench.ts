import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import { converted } from '@semblance/testkit/voice/convert';
import { decode, joined, RATE, SPEAKERS, speech } from '@semblance/testkit/voice/sounds';
import { recordedSpeech } from '../lib/recorded-speech.ts';
import { type BenchContext, figure, type Row, type Section } from '../lib/section.ts';
import { readingOfRecogniser, recognised } from './recogniser.ts';
import { wordErrors, wordsOf } from './word-errors.ts';

/** Sentences that synthetic speakers say. Their spelling is the same in all of English. */
const SENTENCES = [
  'The bakery on the corner opens at six and sells fresh bread until noon.',
  'Please bring the small box from the kitchen and put it beside the door.',
  'Two boys threw stones across the river while their father slept.',
  'She wants to know whether the train to the coast leaves on time.',
  'My brother keeps his old guitar under the bed in the spare room.',
  'The thick fog hid the bridge, so we waited for the morning sun.',
  'Can you tell me how much the blue shirt and the leather shoes cost?',
  'Every winter they feed the birds with seeds and pieces of apple.',
  'The doctor said that he should drink more water and walk each day.',
  'Nobody heard the phone because the music was much too loud.',
  'A yellow taxi stopped in front of the hotel and three men got out.',
  'We planted tomatoes and beans behind the house last week.',
] as const;
/** Silence between two utterances of a session, in seconds. */
const PAUSE_SEC = 0.5;
/** Most words of a hundred that a voice may lose. */
const MOST_LOST = 10;
/** Least number of words of which a speaker's figure is judged; of fewer, one word counts too much. */
const LEAST_WORDS = 100;

/** What one speaker says in a session. */
interface Session {
  readonly speaker: string;
  readonly texts: readonly string[];
  readonly sounds: readonly Int16Array[];
}

/** Measures which share of the words a recogniser no longer understands after the conversion. */
export async function runWordsBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const sessions = [...(await recordedSessions()), ...(await syntheticSessions())];
  say('voice: words of the speakers');
  const before: number[] = [];
  for (const session of sessions) before.push(await errorsOf(session, session.sounds));
  const rows: Row[] = [];
  for (const voice of (await loadVoices()).values()) {
    say(`voice: words as ${voice.id}`);
    for (const [i, session] of sessions.entries()) {
      const after = await errorsOf(session, spokenAs(voice, session));
      rows.push(wordsRow(session, voice, after, before[i] as number));
    }
  }
  return {
    title: 'Words of converted speech',
    rows,
    notes: [
      'Share of wrong, missing and added words by Moonshine Tiny, an offline recogniser of English. Each speaker speaks in one session; the recogniser hears each utterance alone.',
      `The goal is at most ${MOST_LOST} words of a hundred more than in the same speech unconverted. A speaker of fewer than ${LEAST_WORDS} words has no goal.`,
    ],
  };
}

/** Converts what a speaker says as one session, and returns its utterances. */
function spokenAs(voice: Voice, { sounds }: Session): Int16Array[] {
  const pause = new Int16Array(PAUSE_SEC * RATE);
  const whole = converted(joined(sounds.flatMap((sound) => [sound, pause])), voice);
  let at = 0;
  return sounds.map(({ length }) => {
    const part = whole.subarray(at, at + length + pause.length / 2);
    at += length + pause.length;
    return part;
  });
}

function wordsRow({ speaker, texts }: Session, { id }: Voice, ours: number, own: number): Row {
  const words = texts.flatMap(wordsOf).length;
  const judged = words >= LEAST_WORDS;
  return {
    name: `${id}: word errors of ${speaker}, ${words} words`,
    ours: `${figure(ours)} %`,
    peer: `${figure(own)} % (unconverted)`,
    ratio: '',
    goal: judged ? `≤ ${figure(own + MOST_LOST)} %` : '',
    met: judged ? (ours <= own + MOST_LOST ? 'met' : 'not met') : '',
  };
}

/** Returns word errors of a session per hundred words. */
async function errorsOf({ texts }: Session, sounds: readonly Int16Array[]): Promise<number> {
  const heard = await recognised(sounds);
  let [errors, words] = [0, 0];
  for (const [i, text] of texts.entries()) {
    const said = wordsOf(text);
    errors += wordErrors(said, wordsOf(heard[i] as string));
    words += said.length;
  }
  return (100 * errors) / words;
}

async function recordedSessions(): Promise<Session[]> {
  const sessions: Session[] = [];
  const sources = new Map(await recordedSpeech());
  sources.set('a man who reads aloud', [await readingOfRecogniser()]);
  for (const [speaker, recordings] of sources) {
    const sounds = await Promise.all(recordings.map(({ path }) => decode(path)));
    sessions.push({ speaker, texts: recordings.map(({ text }) => text), sounds });
  }
  return sessions;
}

async function syntheticSessions(): Promise<Session[]> {
  const sessions: Session[] = [];
  for (const speaker of SPEAKERS) {
    const sounds: Int16Array[] = [];
    for (const text of SENTENCES) sounds.push(await speech(speaker, text));
    sessions.push({ speaker, texts: SENTENCES, sounds });
  }
  return sessions;
}
