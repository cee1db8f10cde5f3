/**
 * `node test/fuzz/schemathesis.ts` runs Schemathesis, a third-party fuzzer, on the OpenAPI document of a running stack. It generates requests from the document and checks every answer against it. It needs python3 and installs the fuzzer into a scratch folder. The suite has its own fuzzer (test/conformance/openapi.test.ts), which needs nothing.
 *
 * Arguments go to Schemathesis: `--max-examples=200`, `--include-operation-id=getJob`.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stackAt } from '@semblance/testkit/stack/stack';
import { startStackProcess } from '@semblance/testkit/stack/stack-process';

const VERSION = '4.32.5';
/**
 * Three checks are left out. One forbids the refusal of requests that the schema allows, but a schema cannot
 * express every rule (a key exists, a text is not blank). One tests unknown methods, which are `not_found` here.
 * One tests use after deletion, and reads stay possible here.
 */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
  'ignored_auth',
];

const folder = await mkdtemp(join(tmpdir(), 'semblance-fuzz-'));
try {
  const python = join(folder, 'bin', 'python');
  await run('python3', ['-m', 'venv', folder]);
  await run(python, ['-m', 'pip', 'install', '--quiet', '--no-input', `schemathesis==${VERSION}`]);
  const stack = await startStackProcess();
  try {
    const { apiKey, api } = await stackAt(stack.file).newAccount({ balanceUsd: 0.5 });
    process.exitCode = await run(
      join(folder, 'bin', 'schemathesis'),
      [
        'run',
        `${api.baseUrl}/openapi.json`,
        `--header=Authorization: Bearer ${apiKey}`,
        `--checks=${CHECKS.join(',')}`,
        // Two operations have tests of their own: a stream that stays open while its job waits, and the content of
        // files.
        '--exclude-operation-id=followJob',
        '--exclude-operation-id=readFile',
        '--phases=examples,coverage,fuzzing',
        '--max-examples=40',
        '--request-timeout=20',
        '--no-color',
        ...process.argv.slice(2),
      ],
      true,
    );
  } finally {
    await stack.close();
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

/**
 * @returns the exit status
 * @throws Error when the status is not 0, unless `anyStatus` is set
 */
function run(command: string, args: readonly string[], anyStatus = false): Promise<number> {
  return new Promise((resolve, reject) => {
    // The program keeps its findings in its working directory, so that is the scratch folder.
    const child = spawn(command, args, { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] });
    child.once('error', reject);
    child.once('exit', (status) => {
      if (status === 0 || (anyStatus && status !== null)) resolve(status);
      else reject(new Error(`${command} ended with ${status}`));
    });
  });
}
