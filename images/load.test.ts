import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '@semblance/common/process/run';
import { afterAll, expect, it } from 'vitest';
import { readArguments, UsageError } from './arguments.ts';
import { TARGETS } from './build-options.ts';
import { findDestination } from './destination.ts';
import { withAdvice } from './disk-full.ts';

const dir = mkdtempSync(join(tmpdir(), 'semblance-images-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Returns a PATH with only these scripts as programs. */
function programs(scripts: Record<string, string>): NodeJS.ProcessEnv {
  const bin = mkdtempSync(join(dir, 'bin-'));
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return { PATH: bin };
}

it('takes the same arguments for building and loading, and refuses what makes no sense', async () => {
  expect(await readArguments([])).toMatchObject({ targets: TARGETS, cold: false });
  const read = await readArguments(['--only', 'semblance-nats', '--kind', 'a', '--tag', 'x'], ['kind']);
  expect(read).toMatchObject({ targets: ['semblance-nats'], tag: 'x', extra: { kind: 'a' } });
  expect(await readArguments(['--help'])).toBe('help');
  for (const words of [['--kind', 'a'], ['--only', 'x'], ['--tag', 'a/b'], ['--providers', '/none'], ['x']])
    await expect(readArguments(words), words.join(' ')).rejects.toThrow(UsageError);
});

it('says before anything is built where images cannot go, and what to do', async () => {
  const none = programs({});
  const many = programs({ kind: 'echo a; echo b' });
  await expect(findDestination({}, none)).rejects.toThrow('--containerd SOCKET');
  await expect(findDestination({ kind: 'a' }, none)).rejects.toThrow('not on PATH');
  await expect(findDestination({}, many)).rejects.toThrow('one of a, b');
  await expect(findDestination({ kind: 'c' }, many)).rejects.toThrow('there are a, b');
  await expect(findDestination({ kind: 'a', containerd: '/s' }, many)).rejects.toThrow('not both');
  await expect(findDestination({ containerd: '/none' }, many)).rejects.toThrow('no such file');
  await expect(findDestination({ containerd: dir }, many)).rejects.toThrow('is no socket');
  expect(await findDestination({}, programs({ kind: 'echo a' }))).toEqual({ kind: 'a' });
});

it('asks a socket whether a containerd answers', async () => {
  const socket = join(dir, 'containerd.sock');
  const server = createServer().listen(socket);
  await new Promise((resolve) => server.once('listening', resolve));
  try {
    const answers = programs({ ctr: 'exit 0' });
    expect(await findDestination({ containerd: `unix://${socket}` }, answers)).toEqual({ socket });
    // The command line takes precedence over the environment.
    const set = { ...answers, SEMBLANCE_KIND_CLUSTER: 'a' };
    expect(await findDestination({ containerd: socket }, set)).toEqual({ socket });
    const silent = programs({ ctr: 'echo "failed to dial" >&2; exit 1' });
    await expect(findDestination({ containerd: socket }, silent)).rejects.toThrow('no containerd answers');
    const closed = programs({ ctr: 'echo "connect: permission denied" >&2; exit 1' });
    await expect(findDestination({ containerd: socket }, closed)).rejects.toThrow('as root');
    await expect(findDestination({ containerd: socket }, programs({}))).rejects.toThrow('ctr');
  } finally {
    server.close();
  }
});

it('tells a full disk from other failures, with what to do', async () => {
  const fail = (script: string) => withAdvice(dir, () => run('sh', ['-c', script]));
  await expect(fail('echo "write: no space left on device" >&2; exit 1')).rejects.toThrow(
    'SEMBLANCE_CACHE_DIR',
  );
  await expect(withAdvice(dir, () => run('sh', ['-c', 'echo fine']))).resolves.toBe('fine\n');
});

it('ends a command that is not wanted any more, and waits for its end', async () => {
  const interruption = new AbortController();
  let ended = false;
  const command = run('sh', ['-c', 'echo started; exec sleep 60'], {
    signal: interruption.signal,
    onLine: () => interruption.abort(new Error('ended by SIGINT')),
  }).finally(() => {
    ended = true;
  });
  await expect(command).rejects.toThrow('ended by SIGINT');
  expect(ended).toBe(true);
});
