/**
 * Speech markup in scripts: the part of SSML 1.1 (https://www.w3.org/TR/speech-synthesis11/) that says how something
 * is read. Its elements are turned into words and punctuation, because no engine reads them.
 */

/** Elements that are known. `speak`, `p`, `s` and `emphasis` leave their content as it is. */
const KNOWN = ['speak', 'p', 's', 'emphasis', 'break', 'sub', 'say-as'];

const MARKUP =
  /<!--[\s\S]*?-->|<\?[\s\S]*?\?>|<(\/?)([A-Za-z][\w:.-]*)((?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(\/?)>/g;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
/** Kinds of `say-as` whose content is read letter by letter or digit by digit. */
const SPELLED = ['characters', 'spell-out', 'verbatim', 'digits', 'telephone'];

export type PlainScript = { readonly text: string } | { readonly fault: string };

/**
 * Returns a script as it is spoken. One without markup is returned as it is.
 * @returns the text, or the fault of its markup, worded to follow the name of a field
 */
export function plainScript(script: string): PlainScript {
  if (!/<[/!?A-Za-z]/.test(script)) return { text: script };
  let text = '';
  let end = 0;
  let found = false;
  /** Open elements that replace their content, the innermost last, and where their content begins in `text`. */
  const open: {
    readonly name: string;
    readonly attributes: ReadonlyMap<string, string>;
    readonly from: number;
  }[] = [];
  for (const match of script.matchAll(MARKUP)) {
    const [whole, closes, name, rest = '', empty] = match;
    found = true;
    text += script.slice(end, match.index);
    end = match.index + whole.length;
    if (name === undefined) continue;
    if (!KNOWN.includes(name))
      return {
        fault: `has the element <${name.slice(0, 40)}>; <${KNOWN.slice(3).join('>, <')}> are understood`,
      };
    const attributes = attributesOf(rest);
    if (name === 'break' && !closes) text += pause(text, attributes);
    if ((name === 'p' || name === 's') && closes) text += stop(text);
    if (name !== 'sub' && name !== 'say-as') continue;
    if (empty) {
      if (name === 'sub') text += attributes.get('alias') ?? '';
    } else if (!closes) open.push({ name, attributes, from: text.length });
    else {
      const opened = open.pop();
      if (opened?.name !== name) return { fault: `closes <${name}>, which is not open` };
      text = text.slice(0, opened.from) + replaced(opened.name, opened.attributes, text.slice(opened.from));
    }
  }
  const [left] = open;
  if (left) return { fault: `does not close <${left.name}>` };
  // Something such as "a <b" is no markup.
  if (!found) return { text: script };
  return { text: withoutEntities(text + script.slice(end)).trim() };
}

function attributesOf(text: string): ReadonlyMap<string, string> {
  const found = text.matchAll(/([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g);
  return new Map([...found].map(([, name = '', double, single]) => [name, double ?? single ?? '']));
}

function replaced(name: string, attributes: ReadonlyMap<string, string>, content: string): string {
  if (name === 'sub') return attributes.get('alias') ?? content;
  if (!SPELLED.includes(attributes.get('interpret-as') ?? '')) return content;
  return [...withoutEntities(content)].filter((character) => character.trim() !== '').join(' ');
}

/** Returns the punctuation of a break: a stop for a second and more or a strong one, otherwise a comma. */
function pause(before: string, attributes: ReadonlyMap<string, string>): string {
  const strength = attributes.get('strength') ?? 'medium';
  if (strength === 'none') return ' ';
  const [, number = '0', unit] = /^([\d.]+)(ms|s)$/.exec(attributes.get('time') ?? '') ?? [];
  const seconds = Number(number) * (unit === 'ms' ? 0.001 : 1);
  if (seconds >= 1 || strength.endsWith('strong')) return stop(before);
  return isStopped(before) ? ' ' : ', ';
}

const stop = (before: string) => (isStopped(before) ? ' ' : '. ');

/** Tells whether punctuation, or nothing, comes before. */
const isStopped = (before: string) => !/[\p{L}\p{N}\p{M}"')\]]\s*$/u.test(before);

function withoutEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,4}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const point = Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10);
    const isText = point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
    return isText ? String.fromCodePoint(point) : '';
  });
}
