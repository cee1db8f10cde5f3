import { join } from 'node:path';

/** Script of a program that tries to reach what is outside, from the place of a decoder. */
export const INTRUDER = join(import.meta.dirname, 'intruder.py');
