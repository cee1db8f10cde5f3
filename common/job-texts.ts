import { createHash } from 'node:crypto';

/**
 * Parameters that a RenderJob names by digest alone, because they are what people say, or what they look like. The agent gets them with the
 * call that starts an attempt, as it gets its links.
 */
const TEXTS: ReadonlySet<string> = new Set(['script', 'faces']);
const SUFFIX = '_sha256';

type Parameters = Readonly<Record<string, string>>;

/** Says of a job that a parameter which its RenderJob names by digest is not to be had. */
export class TextMissingError extends Error {
  override readonly name = 'TextMissingError';
  readonly code = 'text_missing';
  readonly retryable = false;
}

/** The name of the job is part of the digest, so that it tells nothing of equal texts, and is of use in no other job. */
function digestOf(job: string, text: string): string {
  return createHash('sha256').update(`${job}\n${text}`).digest('hex');
}

/** Returns the parameters with digests (`script_sha256`) in place of texts. */
export function withDigests(job: string, parameters: Parameters): Record<string, string> {
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) =>
      TEXTS.has(name) ? [`${name}${SUFFIX}`, digestOf(job, value)] : [name, value],
    ),
  );
}

/** Returns the texts among the parameters. */
export function textsIn(parameters: Parameters): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters).filter(([name]) => TEXTS.has(name)));
}

/**
 * Returns the parameters with texts in place of digests.
 * @param read reads the texts of the job; it is not called for parameters without digests
 * @throws TextMissingError when there is no text of this digest
 */
export async function withTexts(
  job: string,
  parameters: Parameters,
  read: () => Promise<Parameters>,
): Promise<Parameters> {
  const named = [...TEXTS].filter((name) => Object.hasOwn(parameters, `${name}${SUFFIX}`));
  if (named.length === 0) return parameters;
  const texts = await read();
  const found = { ...parameters };
  for (const name of named) {
    const digest = `${name}${SUFFIX}`;
    const text = Object.hasOwn(texts, name) ? texts[name] : undefined;
    if (text === undefined || digestOf(job, text) !== parameters[digest])
      throw new TextMissingError(`the text of the parameter ${digest} is not there`);
    found[name] = text;
    delete found[digest];
  }
  return found;
}
