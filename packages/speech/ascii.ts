import { asciiDigit } from './script-text.ts';

const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  Æ: 'Ae',
  œ: 'oe',
  Œ: 'Oe',
  ø: 'o',
  Ø: 'O',
  ł: 'l',
  Ł: 'L',
  đ: 'd',
  Đ: 'D',
  ð: 'th',
  þ: 'th',
  ı: 'i',
  ŋ: 'ng',
  Þ: 'Th',
  Ð: 'Th',
  ə: 'a',
  '…': '...',
  '–': ', ',
  '—': ', ',
  '−': ' minus ',
  '×': ' times ',
  '÷': ' divided by ',
  '¿': ' ',
  '¡': ' ',
  '€': ' euros ',
  '£': ' pounds ',
  '¥': ' yen ',
  '₹': ' rupees ',
  '°': ' degrees ',
  '©': ' copyright ',
  '®': ' ',
  '™': ' ',
  '½': ' one half ',
  '¼': ' one quarter ',
  '¾': ' three quarters ',
  '±': ' plus or minus ',
  '≠': ' is not ',
  '。': '. ',
  '、': ', ',
  '！': '! ',
  '？': '? ',
  '«': '"',
  '»': '"',
  '„': '"',
  '‹': "'",
  '›': "'",
  '‚': "'",
};

/** Converts English to the characters that flite reads: letters without their marks, and names of unknown signs. */
export function toAscii(text: string): string {
  return text
    .replace(/[\u2018\u2019\u02BC]/g, "'")
    .replace(/[\u201C\u201D]/g, '"')
    .replace(/[^\0-\x7F]/gu, (sign) => LETTERS[sign] ?? sign)
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/\p{Nd}/gu, asciiDigit)
    .replace(/[^\x20-\x7E]/gu, ' ')
    .trim();
}
