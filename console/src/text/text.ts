import en from './en.json';

export type TextKey = keyof typeof en;
type Texts = Partial<Record<TextKey, string>>;

/** Languages beside English, by their tags: files of this folder, which are loaded when a reader prefers them. */
const others = import.meta.glob<{ default: Texts }>(['./*.json', '!./en.json']);

let texts: Texts = en;
/** Tag of the language in use; dates and amounts follow the reader's own region. */
let language = 'en';

/** Loads the first language that the reader prefers and that there is. English fills the gaps. */
export async function loadTexts(preferred: readonly string[] = navigator.languages): Promise<void> {
  for (const tag of preferred) {
    const base = tag.split('-')[0] ?? '';
    if (base === 'en') break;
    const load = others[`./${base}.json`];
    if (!load) continue;
    texts = { ...en, ...(await load()).default };
    language = base;
    break;
  }
  document.documentElement.lang = language;
}

/** Returns a text with `{name}` replaced by its value. */
export function t(key: TextKey, values: Readonly<Record<string, string | number>> = {}): string {
  const text = texts[key] ?? en[key];
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** Returns the text of a code of the API; a code that is not known is shown as it is, with spaces. */
export function textOf(group: string, code: string): string {
  const key = `${group}.${code}`;
  return key in en ? t(key as TextKey) : code.replaceAll('_', ' ');
}

const money = new Map<number, Intl.NumberFormat>();
/** Returns an amount in US dollars: two decimals, or as many as a small one needs, to the millionth. */
export function usd(amount: number): string {
  const most = amount !== 0 && Math.abs(amount) < 1 ? 6 : 2;
  let format = money.get(most);
  if (!format) {
    format = new Intl.NumberFormat(undefined, {
      style: 'currency',
      currency: 'USD',
      minimumFractionDigits: 2,
      maximumFractionDigits: most,
    });
    money.set(most, format);
  }
  return format.format(amount);
}

const numbers = new Intl.NumberFormat();
export const count = (n: number) => numbers.format(n);

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
export const localTime = (iso: string) => local.format(new Date(iso));
export const utcTime = (iso: string) => `${new Date(iso).toISOString().replace('T', ' ').slice(0, 19)} UTC`;
export const utcDay = (date: string) => day.format(new Date(`${date}T00:00:00Z`));

/** Returns a time of seconds as `1 h 4 min`, `3 min 20 s` or `4.2 s`. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds * 10) / 10} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Returns a number of bytes as `3.4 MB`. */
export function bytes(size: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = size;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
