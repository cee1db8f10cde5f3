import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { sharedStack } from '@semblance/testkit/stack/stack';
import { expect } from 'vitest';
import { ROOT } from '../structure/workspaces.ts';

const PROGRAMS = join(import.meta.dirname, 'programs');

/** A folder in which a client is generated from the document of a running stack, compiled, and run. */
export interface Workshop {
  readonly dir: string;
  /** The document, as a reader of the API gets it. */
  readonly document: string;
  readonly apiKey: string;
  /** Runs a program in the folder. @returns what it prints, and what it says on standard error */
  run(
    program: string,
    args: readonly string[],
    env?: NodeJS.ProcessEnv,
  ): Promise<{ stdout: string; stderr: string }>;
  close(): Promise<void>;
}

/** @param programs files or folders of `programs` that are copied into the folder */
export async function openWorkshop(...programs: string[]): Promise<Workshop> {
  const stack = await sharedStack();
  const { api, apiKey } = await stack.newAccount({ balanceUsd: 20 });
  const dir = await mkdtemp(join(tmpdir(), 'semblance-clients-'));
  const document = await (await fetch(`${api.baseUrl}/openapi.json`)).text();
  await writeFile(join(dir, 'openapi.json'), document);
  await writeFile(join(dir, 'base.jpg'), ADMIRAL.bytes);
  await writeFile(join(dir, 'face.png'), ASTRONAUT.bytes);
  for (const name of programs) await cp(join(PROGRAMS, name), join(dir, name), { recursive: true });
  // Programs in TypeScript find their packages as those of the repository do.
  await symlink(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
  const own = { PATH: process.env.PATH, HOME: process.env.HOME, API_KEY: apiKey, API_URL: api.baseUrl };
  return {
    dir,
    document,
    apiKey,
    async run(program, args, env = {}) {
      const options = { cwd: dir, env: { ...own, ...env }, maxBuffer: 1 << 26 };
      try {
        return await promisify(execFile)(program, [...args], options);
      } catch (error) {
        const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
        throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}\n${stderr}`.slice(0, 4_000), {
          cause: error,
        });
      }
    },
    close: () => rm(dir, { recursive: true, force: true }),
  };
}

/** Expects what each of the programs prints when it has done its round: upload, submit, poll, two refusals, a session. */
export function expectRound(stdout: string): void {
  expect(JSON.parse(stdout.trim().split('\n').at(-1) ?? '')).toEqual({
    job: { status: 'succeeded', charged_usd: expect.any(Number), output: 'image' },
    refusals: ['invalid_input', 'not_found'],
    session: { opened: true, listed: 'queued', ended: true },
  });
}
