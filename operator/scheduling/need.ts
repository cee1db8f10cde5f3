import { hasVoice, languageFor } from '@semblance/engine-api/speech';
import type { AgentView } from '../agents/view.ts';

/** Never in the names of capabilities, voices and languages. */
const BETWEEN = '\0';

/** What a job asks of an agent. */
export interface Need {
  readonly capability: string;
  /** Of `avatar`. */
  readonly voice?: string | undefined;
  readonly language?: string | undefined;
}

interface Asked {
  readonly capability: string;
  readonly parameters?: Readonly<Record<string, string>> | undefined;
}

type Able = Pick<AgentView, 'costs' | 'speech'>;

/** Returns what a job needs as a text, which is the same for all jobs that the same agents can take. */
export function needOf({ capability, parameters = {} }: Asked): string {
  const { voice_id: voice, language } = parameters;
  if (capability !== 'avatar' || (voice === undefined && language === undefined)) return capability;
  return [capability, voice ?? '', language ?? ''].join(BETWEEN);
}

/** Reads a text of {@link needOf}. */
export function parseNeed(text: string): Need {
  const [capability = '', voice, language] = text.split(BETWEEN);
  return { capability, voice: voice || undefined, language: language || undefined };
}

/**
 * Returns a function that tells the slots that a job takes on one of the agents; undefined: it cannot take it. A language is a
 * hint: where none of them speaks it, it does not count.
 */
export function costsOf(agents: readonly Able[], need: string): (agent: Able) => number | undefined {
  const asked = parseNeed(need);
  const spoken = asked.language === undefined || agents.some((agent) => costOn(agent, asked) !== undefined);
  const wanted = spoken ? asked : { ...asked, language: undefined };
  return (agent) => costOn(agent, wanted);
}

/** While an agent does not tell its voices, its engine alone decides. */
function costOn({ costs, speech }: Able, { capability, voice, language }: Need): number | undefined {
  const cost = costs.get(capability);
  if (cost === undefined || !speech) return cost;
  if (voice !== undefined && !hasVoice(speech, voice)) return undefined;
  if (language !== undefined && languageFor(new Set(speech.languages), language) === undefined)
    return undefined;
  return cost;
}
