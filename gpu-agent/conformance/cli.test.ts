import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { GOOD_INFO, startScriptedSidecar } from '@semblance/testkit/engine-sidecar/scripted-sidecar';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readArguments, UsageError } from './arguments.ts';
import { assertFree, reach } from './reach.ts';

const CLI = join(import.meta.dirname, 'cli.ts');
const idle = new AbortController().signal;

let dir: string;
const servers: Server[] = [];
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-cli-'));
});
afterAll(async () => {
  for (const server of servers) server.close();
  await rm(dir, { recursive: true, force: true });
});

function run(...words: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...words], (error, stdout, stderr) =>
      resolve({ status: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

/** Listens on a socket like an engine, but is none. */
async function listener(name: string, serve: (socket: Socket) => void): Promise<string> {
  const path = join(dir, name);
  const server = createServer((socket) => serve(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  servers.push(server.unref());
  return path;
}

describe('the command line', () => {
  const whole = ['--socket', '/tmp/a.sock', '--capability', 'face-swap-image'];

  it.each<[string, string[], RegExp]>([
    ['nothing', [], /^--socket is missing$/],
    ['an unknown option', [...whole, '--verbose'], /^Unknown option '--verbose'$/],
    ['an option without its value', ['--socket'], /^Option '--socket <value>' argument missing$/],
    ['a word too many', [...whole, 'python3'], /^Unexpected argument 'python3'/],
    ['a socket with too long a path', ['--socket', `/${'x'.repeat(100)}`], /is longer than 100 bytes$/],
    ['no capability', ['--socket', '/tmp/a.sock'], /^--capability is missing$/],
    [
      'a capability of nobody',
      [...whole.slice(0, 3), 'cooking'],
      /^--capability: cooking is none of .*avatar/,
    ],
    [
      'an input for a session',
      [...whole.slice(0, 3), 'voice', '--input', `face=${CLI}`],
      /^voice takes no --input/,
    ],
    ['no file for an input', [...whole.slice(0, 3), 'avatar'], /^avatar needs --input image=FILE$/],
    ['another input', [...whole, '--input', `sound=${CLI}`], /has no input sound, only image and face$/],
    ['a file that is not there', [...whole, '--input', 'image=/no/such'], /there is no file \/no\/such$/],
    ['a folder for a file', [...whole, '--input', 'image=/tmp'], /there is no file \/tmp$/],
    ['a setting without a value', [...whole, '--parameter', 'script'], /^--parameter: script is no name and/],
    [
      'an unknown code',
      [...whole, '--bad', `ugly:image=${CLI}`],
      /^--bad: ugly is none of face_not_detected/,
    ],
    ['a code alone', [...whole, '--bad', 'unsupported_format'], /^--bad: nothing is no name and value/],
    ['no command after --', [...whole, '--'], /^there is no command after --$/],
  ])('is refused in one line with %s', (_what, words, message) => {
    const reading = () => readArguments(words);
    expect(reading).toThrow(UsageError);
    expect(reading).toThrow(message);
  });

  it('is read with what follows -- as the command, options of its own among it', () => {
    const bad = ['--bad', `unsupported_format:face=${CLI}`];
    const words = [...whole, '--parameter', 'a=b=c', ...bad, '--', 'python3', '--socket', 'x'];
    expect(readArguments(words)).toMatchObject({
      socket: '/tmp/a.sock',
      command: ['python3', '--socket', 'x'],
      given: {
        capability: 'face-swap-image',
        parameters: { a: 'b=c' },
        inputs: { image: expect.stringContaining('astronaut.png') },
        bad: [{ code: 'unsupported_format', inputs: { face: CLI } }],
      },
    });
    expect(readArguments(['--help'])).toBe('help');
  });

  it('is read for a session with what it is opened with', () => {
    const words = [...whole.slice(0, 3), 'full-live-swap', '--parameter', 'prompt=as a knight'];
    expect(readArguments(words)).toEqual({
      socket: '/tmp/a.sock',
      command: undefined,
      live: { capability: 'full-live-swap', settings: { prompt: 'as a knight' } },
    });
    const { live } = readArguments([...whole.slice(0, 3), 'voice']) as Exclude<
      ReturnType<typeof readArguments>,
      'help'
    >;
    expect(JSON.parse(live?.settings.voice ?? '')).toMatchObject({ id: 'calm-alto' });
  });

  it('ends with status 2, the reason, the usage and nothing else where it makes no sense', async () => {
    const { status, stdout, stderr } = await run(...whole, '--verbose');
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(
      /^Unknown option '--verbose'\n\nusage: npm run [\s\S]*Without one the engine has to run/,
    );
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe('an engine that cannot be looked at', () => {
  it('is told of in one line, with status 1', async () => {
    const { status, stdout, stderr } = await run('--socket', CLI, '--capability', 'face-swap-image');
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toBe(`✗ ${CLI} is no socket\n`);
    const rubbish = join(dir, 'rubbish', 'engine.sock');
    const command = ['sh', '-c', 'exit 3'];
    const ended = await run('--socket', rubbish, '--capability', 'face-swap-image', '--', ...command);
    expect([ended.status, ended.stderr]).toEqual([1, '✗ the sidecar ended (status 3)\n']);
  });

  it('has nothing at its socket', async () => {
    await expect(reach(join(dir, 'none'), idle)).rejects.toThrow(/^there is no \S+\/none: is the engine/);
  });

  it('does not answer', async () => {
    const path = await listener('hangs', () => {});
    await expect(reach(path, idle, 500)).rejects.toThrow(/hangs: GetInfo was not answered within 0\.5 s$/);
  });

  it('speaks another language', async () => {
    const path = await listener('http', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    await expect(reach(path, idle, 20_000)).rejects.toThrow(/http: GetInfo failed: [^\n]+$/);
  });

  it('is another one than that of the command', async () => {
    const path = await listener('taken', () => {});
    await expect(assertFree(path)).rejects.toThrow('somebody listens on');
    const file = join(dir, 'notes.txt');
    await writeFile(file, 'mine');
    await expect(assertFree(file)).rejects.toThrow('is there already, and is no socket');
    expect(await readFile(file, 'utf8')).toBe('mine');
    await expect(assertFree(join(dir, 'free'))).resolves.toBeUndefined();
  });
});

it('an engine that runs already is held to the contract, check by check', async () => {
  const socket = join(dir, 'running.sock');
  const engine = await startScriptedSidecar(socket);
  const { status, stdout } = await run('--socket', socket, '--capability', 'face-swap-image');
  await engine.kill();
  expect(status).toBe(1);
  const lines = stdout.trim().split('\n');
  expect(lines).toHaveLength(12);
  expect(lines.slice(0, 3)).toEqual([
    'scripted 1.0, 2 renders at once',
    '✓ says what it is and can do',
    '✓ is warmed up any number of times',
  ]);
  expect(lines[3]).toMatch(/^✗ renders: .*: the output does not begin as image\/png does/);
  expect(lines).toContain(
    '- finds something out about pictures alone, and changes none: left out, it does not inspect',
  );
  expect(lines[9]).toBe(
    '- fails what a dead process rendered and nothing else, is started again, and renders: left out, there is no process that may be killed',
  );
  expect(lines.at(-1)).toMatch(/^\d checks failed\.$/);
});

it('an engine that does not start is told of in one line with its reason', async () => {
  const socket = join(dir, 'broken.sock');
  const fault = {
    code: status.FAILED_PRECONDITION,
    details: 'Traceback:\n  File "x"\nValueError: no weights\n',
  };
  const engine = await startScriptedSidecar(socket, { warmUpFault: fault });
  const ended = await run('--socket', socket, '--capability', 'face-swap-image');
  await engine.kill();
  expect(ended).toEqual({
    status: 1,
    stdout: '',
    stderr: '✗ the sidecar does not start: ValueError: no weights\n',
  });
  expect(engine.state.warmUps).toBe(1);
});

it('an engine that says rubbish of itself is told which sentence it breaks', async () => {
  const socket = join(dir, 'engine.sock');
  const engine = await startScriptedSidecar(socket, { info: { ...GOOD_INFO, name: 'Two Words' } });
  const { status, stdout, stderr } = await run('--socket', socket, '--capability', 'face-swap-image');
  await engine.kill();
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^✗ the sidecar does not keep to the contract: its name is "Two Words": [^\n]*\n$/);
});
