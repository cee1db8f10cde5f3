import { describe, expect, it } from 'vitest';
import { cutQuestions } from './questions.ts';

const cut = (text: string): string[] =>
  cutQuestions(text).map(({ text, rises }) => `${rises ? '/' : ''}${text}`);

describe('questions of a text', () => {
  it.each([
    ['Hello. I am here. Bye.', ['Hello. I am here. Bye.']],
    ['Hello. Are you there? Good.', ['Hello.', '/Are you there?', 'Good.']],
    ['Are you? Is he?', ['/Are you?', '/Is he?']],
    ['Why are you here? And where do you go?', ['Why are you here? And where do you go?']],
    ['In which town? At what time?', ['In which town? At what time?']],
    ['He asked: "Is it you?" She nodded.', ['/He asked: "Is it you?"', 'She nodded.']],
    ['Dr. Smith is here? J. R. Brown left.', ['/Dr. Smith is here?', 'J. R. Brown left.']],
    ['It costs $3.50? Yes.', ['/It costs $3.50?', 'Yes.']],
    ['really', ['really']],
    ['', ['']],
  ])('%j', (text, pieces) => {
    expect(cut(text)).toEqual(pieces);
  });
});
