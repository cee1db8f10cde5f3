import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '@semblance/common/config';
import { DEFAULT_CHARACTER, readPrompt } from '@semblance/common/live-prompt';
import sharp from 'sharp';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { characterDirectories, characterShape, loadCharacters, SHIPPED_CHARACTERS } from './characters.ts';

let root: string;
let directory: string;
let portrait: Buffer;
let count = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'semblance-characters-'));
  portrait = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#fff' } })
    .png()
    .toBuffer();
});
beforeEach(async () => {
  directory = join(root, String(count++));
  await mkdir(directory);
});
afterAll(() => rm(root, { recursive: true, force: true }));

const GOOD = { name: 'The pirate', description: 'With a parrot.', portrait: 'portrait.png' };

async function pack(id: string, description: unknown, files: Record<string, Buffer | string> = {}) {
  const folder = join(directory, id);
  await mkdir(folder, { recursive: true });
  if (description !== undefined) {
    const text = typeof description === 'string' ? description : JSON.stringify(description);
    await writeFile(join(folder, 'character.json'), text);
  }
  for (const [name, bytes] of Object.entries({ 'portrait.png': portrait, ...files })) {
    await writeFile(join(folder, name), bytes);
  }
}

describe('character packs', () => {
  it('that come along can be read, the default among them, and be asked for', async () => {
    const shipped = await loadCharacters();
    expect([...shipped.keys()]).toEqual(['admiral', 'astronaut']);
    expect(shipped.get(DEFAULT_CHARACTER)?.name).toBe('The astronaut');
    expect(readPrompt('Become the admiral', shipped.keys())).toEqual({ kind: 'character', name: 'admiral' });
  });

  it('of the owner are added, and take the place of those with the same id', async () => {
    await pack('pirate', GOOD);
    await pack('admiral', { ...GOOD, name: 'Another admiral' });
    await pack('.git', undefined);
    await writeFile(join(directory, 'README'), 'not a pack');
    const config = loadConfig(characterShape, { SEMBLANCE_CHARACTER_DIR: directory });
    const all = await loadCharacters(characterDirectories(config));
    expect([...all.keys()]).toEqual(['admiral', 'astronaut', 'pirate']);
    expect(all.get('admiral')?.name).toBe('Another admiral');
    expect(all.get('pirate')).toEqual({
      id: 'pirate',
      ...GOOD,
      portrait: join(directory, 'pirate', 'portrait.png'),
    });
  });

  it('are those that come along without a directory of the owner’s, which must be absolute', () => {
    expect(characterDirectories(loadConfig(characterShape, {}))).toEqual([SHIPPED_CHARACTERS]);
    expect(() => loadConfig(characterShape, { SEMBLANCE_CHARACTER_DIR: 'here' })).toThrow(/absolute path/);
  });

  it.each<[string, () => Promise<void>, RegExp]>([
    ['no description', () => pack('pirate', undefined), /character\.json: cannot be read/],
    ['a description that is no JSON', () => pack('pirate', '{'), /character\.json: is not JSON/],
    ['a description that is huge', () => pack('pirate', `"${'x'.repeat(70_000)}"`), /larger than 64 KiB/],
    ['no name', () => pack('pirate', { ...GOOD, name: ' ' }), /name: must not be empty/],
    ['an unknown field', () => pack('pirate', { ...GOOD, age: 3 }), /age/],
    [
      'a portrait elsewhere',
      () => pack('pirate', { ...GOOD, portrait: '../x.png' }),
      /name of a file beside/,
    ],
    ['no portrait', () => pack('pirate', { ...GOOD, portrait: 'x.png' }), /x\.png: cannot be read/],
    [
      'a portrait that is no picture',
      () => pack('pirate', GOOD, { 'portrait.png': 'hello' }),
      /portrait\.png: is not a JPEG, PNG or WebP/,
    ],
    ['a name that no prompt can name', () => pack('The Pirate', GOOD), /must be lower-case letters/],
  ])('with %s are refused with their path', async (_what, make, fault) => {
    await make();
    const error = await loadCharacters([directory]).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'CharacterError', code: 'invalid_character' });
    expect((error as Error).message).toContain(directory);
    expect((error as Error).message).toMatch(fault);
  });

  it('are refused with every fault of all of them', async () => {
    await pack('one', { ...GOOD, name: 5, portrait: 'x/y' });
    await pack('two', '[]');
    await pack('three', GOOD);
    const error = await loadCharacters([directory, join(root, 'nowhere')]).catch((reason: unknown) => reason);
    expect((error as { faults: string[] }).faults).toHaveLength(4);
  });
});
