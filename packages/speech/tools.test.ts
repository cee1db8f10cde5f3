import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WALLS } from '@semblance/media/isolation';
import { runScript } from '@semblance/testkit/common/run-script';
import { afterAll, beforeAll, expect, it } from 'vitest';

const FAKES = {
  flite: "echo 'Voices available: kal slt rms'",
  python3: 'echo de',
  ffmpeg: "echo 'ffmpeg version n7.0'; echo ' V..... libx264 x'; echo ' A..... aac x'",
  ffprobe: 'exit 0',
  unshare: 'exit 0',
};

let bin: string;
beforeAll(async () => {
  bin = await mkdtemp(join(tmpdir(), 'semblance-tools-'));
  for (const [name, script] of Object.entries(FAKES))
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
});
afterAll(() => rm(bin, { recursive: true, force: true }));

it.each([
  ['findSpeechTools', './tools.ts', 'available'],
  ['findMediaTools', '../media/tools.ts', 'available'],
  ['findIsolation', '../media/isolation.ts', 'stands'],
])('%s does not take a lack of files for a lack of programs', async (name, module, field) => {
  const script = runScript(
    `
    import { closeSync, openSync } from 'node:fs';
    import { ${name} as find } from ${JSON.stringify(new URL(module, import.meta.url).href)};
    const held = [];
    try { for (;;) held.push(openSync('/dev/null')); } catch {}
    const found = await find().catch(({ code, message }) => ({ code, message }));
    for (const file of held) closeSync(file);
    const then = await find();
    console.log(JSON.stringify([found, then.${field}]));
  `,
    { PATH: bin },
    { files: 100 },
  );
  const [found, then] = JSON.parse(await script.output);
  expect(found).toEqual({
    code: 'engine_interrupted',
    message: 'the machine of the engine lacks something (EMFILE, spawn)',
  });
  expect(then).toEqual(field === 'stands' ? WALLS : true);
});
