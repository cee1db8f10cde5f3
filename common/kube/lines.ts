/** Longest accepted line, in characters. An object in etcd has at most 1.5 MiB. */
const MAX_LINE = 8 * 1024 * 1024;

/**
 * Yields the lines of a UTF-8 byte stream without line ends, and skips empty lines. A last line without an end was
 * cut off and is dropped.
 * @throws RangeError when a line is longer than 8 Mi characters
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  let held = 0;
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    let from = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      parts.push(text.slice(from, end));
      const line = parts.join('');
      parts = [];
      held = 0;
      from = end + 1;
      if (line) yield line;
    }
    const rest = text.slice(from);
    if (rest) parts.push(rest);
    held += rest.length;
    if (held > MAX_LINE) throw new RangeError('a line of the watch is longer than 8 MiB');
  }
}
