/** @module-tag walls */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { INTRUDER } from '@semblance/testkit/media/intruder';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { findIsolation, type Isolation, pathsOf, WALLS } from './isolation.ts';
import { startProgram } from './sandbox.ts';

/** The interpreter itself, because a name on PATH may be a script that starts it. */
const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
  encoding: 'utf8',
}).trim();
let dir: string;
let guard: Guard;
let isolation: Isolation;
let server: Server;
/** Processes in the place of the agent, and of another one. */
let agent: ChildProcess;
let victim: ChildProcess;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-walls-'));
  guard = createGuard({ graceMs: 200 });
  isolation = await findIsolation();
  for (const attempt of ['one', 'two']) await mkdir(join(dir, 'attempts', attempt), { recursive: true });
  await writeFile(join(dir, 'secret'), 'secret');
  await writeFile(join(dir, 'attempts/one/input'), 'input');
  await writeFile(join(dir, 'attempts/two/input'), 'of another account');
  server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const env = { SEMBLANCE_INTERNAL_TOKEN: 'secret' };
  agent = spawn('/bin/sleep', ['1000'], { stdio: 'ignore', env });
  victim = spawn('/bin/sleep', ['1000'], { stdio: 'ignore' });
});
afterAll(async () => {
  agent.kill('SIGKILL');
  victim.kill('SIGKILL');
  server.close();
  await guard.close();
  await rm(dir, { recursive: true, force: true });
});

interface Report {
  readonly found: Record<string, string>;
  readonly environment: Record<string, string>;
  readonly descriptors: readonly number[];
  readonly limits: Record<string, readonly [number, number]>;
}

/** Starts the intruder as a decoder of attempt `one`, and returns what it could do. */
async function intrude(walls: Isolation, only?: readonly string[]): Promise<Report> {
  const [input, output] = ['input', 'output'].map((name) => join(dir, 'attempts/one', name)) as [
    string,
    string,
  ];
  const facts = {
    ...{ agent: agent.pid, victim: victim.pid, port: (server.address() as { port: number }).port },
    ...{
      secret: join(dir, 'secret'),
      attempts: join(dir, 'attempts'),
      other: join(dir, 'attempts/two/input'),
    },
    ...{ input, output, only },
  };
  const tool = await startProgram({
    file: python,
    args: ['-I', '-S', '-B', INTRUDER, JSON.stringify(facts)],
    isolation: walls,
    guard,
    limits: { cpuSec: 60, memoryMib: 700, fileMib: 1 },
    read: [input, INTRUDER],
    write: [output],
    signal: new AbortController().signal,
  });
  let text = '';
  for await (const chunk of tool.stdout.setEncoding('utf8')) text += chunk;
  const exit = await tool.exited;
  expect(exit, exit.stderr).toMatchObject({ code: 0 });
  return JSON.parse(text) as Report;
}

/** What a decoder does itself. */
const ALLOWED = [
  ...['reads its input', 'writes its output', 'has threads', 'signals itself', 'allocates'],
  'a look at limits of itself',
];

describe('code in the place of a decoder', () => {
  it('decodes, and reaches nothing outside', async () => {
    vi.stubEnv('SEMBLANCE_INTERNAL_TOKEN', 'secret');
    const { found, environment, descriptors, limits } = await intrude(isolation);
    vi.unstubAllEnvs();
    const entries = Object.entries(found);
    expect(entries.filter(([, answer]) => answer === 'reached').map(([name]) => name)).toEqual(ALLOWED);
    expect(entries.length).toBeGreaterThan(ALLOWED.length + 50);
    const answers = new Set(entries.map(([, answer]) => answer));
    answers.delete('reached');
    // A refusal for another reason, such as a missing file, would show nothing.
    expect([...answers].sort()).toEqual(['EACCES', 'ENOSYS', 'EPERM']);
    expect(environment).toEqual({ LC_ALL: 'C', AV_LOG_FORCE_NOCOLOR: '1' });
    expect(descriptors).toEqual([]);
    expect(limits).toMatchObject({
      CPU: [60, 70],
      FSIZE: [1 << 20, 1 << 20],
      AS: [700 << 20, 700 << 20],
      CORE: [0, 0],
    });
    expect(await readFile(join(dir, 'attempts/one/output'), 'utf8')).toBe('output');
    expect(await readFile(join(dir, 'attempts/one/input'), 'utf8')).toBe('input');
    expect((await stat(join(dir, 'secret'))).mtimeMs).toBeGreaterThan(1e12);
    expect(victim).toMatchObject({ exitCode: null, signalCode: null });
  });

  it('reaches much of it without walls, so that the attempts can succeed', async () => {
    const bare = { wall: undefined, unshare: [], stands: [], missing: [] };
    const names = [
      ...[
        "the agent's environment",
        'a file of the agent',
        "another attempt's input",
        'a new file beside its output',
      ],
      ...[
        'rights of a file of the agent',
        'TCP',
        'a Unix socket',
        'a signal to the agent',
        'limits of the agent',
      ],
      ...["the agent's priority", 'ptrace', 'a handle of the agent'],
    ];
    const { found } = await intrude(bare, names);
    expect(found).toEqual(Object.fromEntries(names.map((name) => [name, 'reached'])));
  });
});

describe('semblance-wall', () => {
  const start = (script: string, ...more: string[]) =>
    spawnSync(
      '/bin/sh',
      [
        ...['-c', 'exec 9</etc/passwd; exec "$@"', 'sh', ...(isolation.wall ?? []), '--now'],
        ...[...pathsOf('/bin/bash'), ...more, '--', '/bin/bash', '-c', script],
      ],
      { encoding: 'utf8', env: { LC_ALL: 'C' }, stdio: ['ignore', 'pipe', 'pipe'] },
    );

  it('closes what its starter left open', () => {
    expect(start('read -r line <&9').stderr).toContain('9: Bad file descriptor');
  });

  it('gives an empty file in memory as descriptor 3, only where that is wished', () => {
    expect(start('read -r line <&3').stderr).toContain('3: Bad file descriptor');
    expect(start('read -r line <&3; echo "$?"', '--shared').stdout).toBe('1\n');
  });

  it.each([
    ['--nonsense', 'x', 'unknown option: --nonsense x'],
    ['--cpu', 'many', 'many is no number'],
    ['--without', 'everything', 'unknown option: --without everything'],
  ])('starts nothing with %s %s', (option, value, message) => {
    expect(start('echo ran', option, value)).toMatchObject({
      status: 126,
      stdout: '',
      stderr: `semblance-wall: ${message}\n`,
    });
  });

  it('starts nothing without a byte on its gate', () => {
    const [program = '', ...args] = isolation.wall ?? [];
    const { status } = spawnSync(program, [...args, '--', '/bin/true'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    expect(status).toBe(125);
  });

  it('says which program it cannot start', () => {
    const [program = '', ...args] = isolation.wall ?? [];
    const { status, stderr } = spawnSync(program, [...args, '--now', '--', '/nowhere'], { encoding: 'utf8' });
    // Behind the walls a path that there is not may also be one that must not be looked at.
    const why = /^semblance-wall: cannot start \/nowhere: (No such file or directory|Permission denied)\n$/;
    expect([status, stderr]).toEqual([127, expect.stringMatching(why)]);
  });
});

describe('the walls of a machine', () => {
  it('are tried from inside', () => {
    expect(isolation).toMatchObject({ unshare: [], stands: WALLS, missing: [] });
  });

  it('without semblance-wall are those that stand, and the others are told', async () => {
    const found = await findIsolation('/nowhere/semblance-wall');
    expect(found.wall).toBeUndefined();
    expect([...found.stands, ...found.missing.map(({ wall }) => wall)].sort()).toEqual([...WALLS].sort());
    expect(found.missing[0]).toEqual({
      wall: 'privileges',
      why: 'semblance-wall was not built: no C compiler at npm ci',
    });
  });

  it('are refused where all are required and one is missing', async () => {
    vi.stubEnv('SEMBLANCE_MEDIA_ISOLATION', 'required');
    try {
      await expect(findIsolation('/nowhere/semblance-wall')).rejects.toMatchObject({
        code: 'not_isolated',
        message: expect.stringMatching(/^SEMBLANCE_MEDIA_ISOLATION is required, and .*: privileges \(/),
      });
      await expect(findIsolation()).resolves.toMatchObject({ missing: [] });
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it('are those that hold, not those that are claimed', async () => {
    const liar = join(dir, 'liar');
    // It says nothing of a wall that it could not set.
    await writeFile(liar, '#!/bin/sh\necho stands privileges; echo missing files landlock: off\n', {
      mode: 0o755,
    });
    const found = await findIsolation(liar);
    expect(found.stands).toEqual(['privileges']);
    expect(found.missing).toEqual([
      { wall: 'files', why: 'landlock: off' },
      ...['network', 'processes', 'programs'].map((wall) => ({ wall, why: 'it does not hold here' })),
    ]);
    expect(found.wall?.slice(1)).toEqual([
      '--without',
      'files',
      '--without',
      'calls',
      '--without',
      'programs',
    ]);
  });
});
