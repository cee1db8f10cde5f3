import { pick, seeded } from '@semblance/testkit/sound/random';

/** Everyday sentences with many bilabials and open vowels. */
export const SENTENCES: readonly string[] = [
  'My mother bought a big map of Panama in April.',
  'The farmer drove his father past the far barn.',
  'Bob put the pepper back on top of the table.',
  'Please keep warm, because tomorrow may be very cold.',
  'I thought about the problem for a while and then forgot it.',
  'She sells small seashells, but nobody seems to buy them.',
  'We have not heard from him since the end of summer.',
  'A happy baby crawled up the ramp and clapped.',
  'Would you rather walk to the park or take the bus?',
  'The old man always arrives at half past eleven.',
  'Open the window and let some fresh air in, please.',
  'Nobody knows what happened to the package we posted.',
  'They laughed and laughed until the lamp fell over.',
  'It is a beautiful evening, and the moon is almost full.',
  'Could you pass me the salt and a piece of bread?',
  'The company published its annual report this morning.',
  'He came home, made some coffee and sat by the fire.',
  'There are about five hundred people in our village.',
  'Mobile phones must be put away before the film begins.',
  'I was born in a small town on the coast of Maine.',
  'Stop, look both ways, and only then cross the road.',
  'Apples and plums are cheaper than bananas at the moment.',
  'What a pity that you could not come to the party!',
  'The river flows slowly through a narrow green valley.',
  'Our team won the game by more than twenty points.',
  'Remember to feed the cat and water the plants.',
  'Hot soup helps when you have caught a bad cold.',
  'You should have told me about that a month ago.',
  'A boat with a broken mast drifted into the harbour.',
  'Maybe we can meet again on Monday or Wednesday.',
  'Thank you for calling, and have a wonderful day.',
  'The yellow bird sang all through the long afternoon.',
  'Why do you always wear that horrible purple jumper?',
  'One, two, three, four, five, six, seven, eight, nine, ten.',
  'Her job is to check every number before it is printed.',
  'Computers have become smaller, faster and much cheaper.',
  'I am afraid the manager is not available at present.',
  'The bomb squad marched up Palm Boulevard at noon.',
  'Grandma hummed a tune and rocked the baby to sleep.',
  'All of the shops are shut, apart from the bakery.',
];

/** Sentences only for measurement. */
export const HELD_OUT_SENTENCES: readonly string[] = [
  'Pam and Bob moved the piano from the bar to the palace.',
  'The weather has been awful, and the harbour is almost empty.',
  'My apartment is above a lovely little pub by the market.',
  'How far have they come along the path since this morning?',
  'We both thought that the movie was much better than the book.',
  'Put the lamp behind the box and bring me a hammer, mama.',
  'Father caught a large salmon, but it slipped out of his arms.',
  'If it rains again tomorrow, we will simply stay at home.',
];

const STARTS = [
  'p',
  'b',
  'm',
  'p',
  'b',
  'm',
  't',
  'd',
  'n',
  'k',
  'g',
  's',
  'f',
  'v',
  'l',
  'r',
  'sh',
  'ch',
  'w',
  'h',
];
const VOWELS = ['a', 'a', 'o', 'e', 'i', 'u'];
const ENDS = ['', '', '', 'm', 'n', 'p', 's', 'l', 'b'];

/** Returns lines of words from no language, whose sounds come in orders that the sentences above lack. */
export function nonsense(seed: number, count: number): string[] {
  const random = seeded(seed);
  return Array.from({ length: count }, () => {
    const words = Array.from({ length: 4 + Math.floor(random() * 4) }, () => {
      const syllables = 1 + Math.floor(random() * 3);
      let word = '';
      for (let i = 0; i < syllables; i++)
        word += pick(random, STARTS) + pick(random, VOWELS) + pick(random, ENDS);
      return word;
    });
    return `${words.join(' ')}.`;
  });
}
