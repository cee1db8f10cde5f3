/** Words of the digits, because a recogniser writes some numbers as digits. */
const DIGITS = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'];

/** Returns the words of a text in lower case, without punctuation. */
export function wordsOf(text: string): string[] {
  const spelt = text.toLowerCase().replaceAll(/\d/g, (digit) => ` ${DIGITS[Number(digit)]} `);
  return spelt.replaceAll(/[’']/g, '').match(/[a-z]+/g) ?? [];
}

/** Returns the least number of words to replace, insert or delete that make one text the other (Levenshtein 1966). */
export function wordErrors(said: readonly string[], heard: readonly string[]): number {
  let row = heard.map((_, i) => i + 1);
  for (const [i, word] of said.entries()) {
    let [left, above] = [i + 1, i];
    row = row.map((here, k) => {
      left = Math.min(left + 1, here + 1, above + (word === heard[k] ? 0 : 1));
      above = here;
      return left;
    });
  }
  return row.at(-1) ?? said.length;
}
