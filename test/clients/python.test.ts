/**
 * Clients that two generators in Python make of the document.
 *
 * @module-tag python
 */
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pythonWith } from '@semblance/testkit/engine-sidecar/python-env';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectRound, openWorkshop, type Workshop } from './workshop.ts';

let workshop: Workshop;
let run: (program: string, ...args: string[]) => Promise<{ stdout: string; stderr: string }>;

beforeAll(async () => {
  const python = await pythonWith(join(import.meta.dirname, 'requirements.txt'));
  workshop = await openWorkshop('attrs_client.py', 'pydantic_client.py');
  const bin = dirname(python);
  const env = { PATH: `${bin}:${process.env.PATH}`, PYTHONDONTWRITEBYTECODE: '1' };
  // An environment may be moved, so its programs are found by their modules.
  run = (module, ...args) =>
    workshop.run(python, module.endsWith('.py') ? [module, ...args] : ['-m', module, ...args], env);
  // Lines of this generator's own template, the same in each client, are no subtypes of what httpx declares.
  await writeFile(
    join(workshop.dir, 'mypy.ini'),
    '[mypy]\nstrict = True\n[mypy-client.client]\ndisable_error_code = arg-type\n',
  );
}, 480_000);
afterAll(() => workshop?.close());

it('a client of openapi-python-client type-checks strictly, and does its round', async () => {
  const { stdout, stderr } = await run(
    'openapi_python_client',
    ...['generate', '--path', 'openapi.json', '--output-path', 'client', '--meta', 'none'],
  );
  const said = stdout + stderr;
  // It generates nothing for answers of any type (files behind links), for bodies of the type of resumable uploads, and
  // for answers that are pictures.
  const warnings = [...said.matchAll(/WARNING parsing (.+) within/g)].map(([, what]) => what);
  expect([...new Set(warnings)].sort()).toEqual([
    'GET /docs/{asset}',
    'GET /files/{key}',
    'PATCH /resumable-uploads/{upload_id}',
    'POST /preview',
  ]);
  const answers = warnings.filter((what) => what?.startsWith('GET'));
  expect(said.match(/Unsupported content_type \*\/\*/g)).toHaveLength(answers.length);
  expect(said).not.toMatch(/ERROR|duplicate/i);
  await run('mypy', 'client', 'attrs_client.py');
  expectRound((await run('attrs_client.py')).stdout);
});

it('models of datamodel-code-generator type-check strictly, and read every answer of a round strictly', async () => {
  const { stdout, stderr } = await run(
    'datamodel_code_generator',
    ...['--input', 'openapi.json', '--input-file-type', 'openapi', '--output', 'models.py'],
    ...['--output-model-type', 'pydantic_v2.BaseModel', '--target-python-version', '3.11'],
    ...['--use-annotated', '--enum-field-as-literal', 'all', '--formatters', 'builtin'],
  );
  expect(stdout + stderr, 'warnings').toBe('');
  await run('mypy', 'models.py', 'pydantic_client.py');
  expectRound((await run('pydantic_client.py')).stdout);
});
