/** Words with which a question begins that asks for more than yes or no. Such questions fall in English. */
const ASKS =
  /^(?:and|but|so|or|well|now|then)?[\s,]*(?:at|by|for|from|in|of|on|to|with)?\s*(?:who|whom|whose|what|when|where|why|which|how)\b/i;
/** Ends of sentences: the sign, what closes, and the space behind, unless the point is that of a title. */
const ENDS = /(?<!\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|[A-Z])\.)(?<=[.?!]["')\]]*)\s+(?=["'([]?[A-Z0-9])/;

/** A part of an English text. */
export interface SpokenPiece {
  readonly text: string;
  /** Whether it is a question that can be answered by yes or no. */
  readonly rises: boolean;
}

/** Cuts questions that can be answered by yes or no out of an English text; all else stays together. */
export function cutQuestions(text: string): SpokenPiece[] {
  const pieces: { text: string; rises: boolean }[] = [];
  for (const sentence of text.split(ENDS)) {
    const words = sentence.replace(/^["'([\s]+/, '');
    const rises = /\?["')\]\s]*$/.test(sentence) && !ASKS.test(words);
    const last = pieces.at(-1);
    if (last && !rises && !last.rises) last.text += ` ${sentence}`;
    else pieces.push({ text: sentence, rises });
  }
  return pieces;
}
