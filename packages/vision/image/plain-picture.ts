import { open, writeFile } from 'node:fs/promises';
import { sniffFormat } from './container.ts';
import { encodeBase, readBase } from './picture-file.ts';

const HEAD_BYTES = 256;

/**
 * Writes HEIC, AVIF and GIF as PNG beside the file, with the same pixels, depth and profile, and upright.
 * @param what name of the picture in messages
 * @returns the path of the PNG, or of the file itself where it is of another format
 * @throws RenderError as `readBase`
 */
export async function plainPicture(path: string, what: string): Promise<string> {
  const file = await open(path, 'r');
  const head = Buffer.alloc(HEAD_BYTES);
  try {
    await file.read(head, 0, head.length, 0);
  } finally {
    await file.close();
  }
  const format = sniffFormat(head);
  if (format !== 'heif' && format !== 'gif') return path;
  const plain = `${path}.png`;
  const base = await readBase(path, what);
  await writeFile(plain, await encodeBase({ ...base, format: 'png', lossless: true }), { mode: 0o600 });
  return plain;
}
