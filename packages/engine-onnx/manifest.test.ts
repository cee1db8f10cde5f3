import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyArcface } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { openModelDir } from './model-dir.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

describe('the manifest', () => {
  const write = async (name: string, text: string): Promise<readonly string[]> => {
    const directory = await rig.directory();
    await writeFile(join(directory, name), text);
    return (await openModelDir(directory)).faults;
  };

  it('may be YAML', async () => {
    const directory = await rig.make([{ contract: 'arcface_w600k_r50', bytes: tinyArcface() }]);
    const json = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8'));
    await writeFile(join(directory, 'manifest.yaml'), `# mine\n${stringify(json)}`);
    expect((await openModelDir(directory)).faults).toEqual([
      expect.stringMatching(/has manifest\.yaml and manifest\.json; keep one/),
    ]);
    await rm(join(directory, 'manifest.json'));
    const { models, faults } = await openModelDir(directory);
    expect(faults).toEqual([]);
    expect(models[0]?.licence).toBe('made for a test');
  });

  it.each([
    ['manifest.json', '{', /manifest\.json: cannot be read: /],
    ['manifest.yaml', 'models: [', /manifest\.yaml: cannot be read: /],
    ['manifest.json', '{"version":2,"models":[]}', /version: /],
    [
      'manifest.json',
      '{"version":1,"models":[{"name":"a b"}]}',
      /models\[0\] \(a b\), name: must be letters/,
    ],
    ['manifest.json', '{"version":1,"models":[{"name":"a"}]}', /models\[0\] \(a\), file: /],
    ['other.json', '{}', /has no manifest/],
  ])('%s %s is refused with its fault', async (name, text, message) => {
    expect(await write(name, text)).toEqual(expect.arrayContaining([expect.stringMatching(message)]));
  });

  it('asks for a licence and for names that differ', async () => {
    const entry = { name: 'a', file: 'a.onnx', sha256: '0'.repeat(64), licence: ' ', contract: 'xseg_1' };
    const found = await write(
      'manifest.json',
      JSON.stringify({ version: 1, models: [entry, { ...entry, licence: 'MIT' }] }),
    );
    expect(found).toEqual([
      'manifest.json: models[0] (a), licence: must say under which licence the weights are used',
      'manifest.json: models[1] (a), name: a is there twice',
    ]);
  });

  it('may be missing together with its directory', async () => {
    expect((await openModelDir('/no/such/directory')).faults).toEqual([
      expect.stringMatching(/^\/no\/such\/directory: cannot be read: /),
    ]);
  });
});
