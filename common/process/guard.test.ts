import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { commandLine, identify } from '@semblance/local/process/identity';
import { runScript } from '@semblance/testkit/common/run-script';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { spawnGuarded } from './child.ts';
import { createGuard, type Guard } from './guard.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-guard-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const here = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
const gone = (pid: number) => vi.waitFor(() => expect(identify(pid)).toBeUndefined(), 20_000);
const pidIn = (file: string) => Number(readFileSync(join(folder, file), 'utf8'));

function childrenOf(parent: number): number[] {
  const text =
    process.platform === 'linux'
      ? readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8')
      : execFileSync('pgrep', ['-P', String(parent)], { encoding: 'utf8' });
  return text.trim().split(/\s+/).filter(Boolean).map(Number);
}

/** Script source that opens all the files that the process may open, and closes them. */
const FILES = `
  import { closeSync, openSync } from 'node:fs';
  const held = [];
  const takeAll = () => { try { for (;;) held.push(openSync('/dev/null')); } catch {} };
  const giveBack = () => { for (const file of held.splice(0)) closeSync(file); };
`;

/** Starts a separate process that runs `body`, which can use `guard` and `start(shell)`. */
function owner(body: string, graceMs = 500) {
  return runScript(`
    import { createGuard } from ${here('./guard.ts')};
    import { spawnGuarded } from ${here('./child.ts')};
    const guard = createGuard({ graceMs: ${graceMs} });
    const start = (shell) => spawnGuarded({
      launch: { command: '/bin/sh', args: ['-c', shell], cwd: ${JSON.stringify(folder)} },
      guard, logFile: ${JSON.stringify(join(folder, 'log'))}, stopSignal: 'SIGTERM',
    });
    const ready = async (file) => {
      const { existsSync } = await import('node:fs');
      while (!existsSync(${JSON.stringify(folder)} + '/' + file)) await new Promise((r) => setTimeout(r, 10));
    };
    ${body}
  `);
}

/** A guard is told what to guard just after it begins; nothing outside it shows when it knows. */
const TOLD_MS = 500;

describe('guard', () => {
  it('ends what was started when its owner is killed, children of children included', async () => {
    const script = owner(`
      await start('sleep 60 & echo $! > inner.tmp; echo $$ > outer; mv inner.tmp inner; wait');
      await ready('inner');
      console.log('up');
      setInterval(() => {}, 1000);
    `);
    await script.line('up');
    const [inner, outer] = [pidIn('inner'), pidIn('outer')];
    expect(identify(inner)).toBeDefined();
    script.child.kill('SIGKILL');
    await gone(outer);
    await gone(inner);
  });

  it('kills what ignores the request to stop', async () => {
    const script = owner(`
      await start("trap '' TERM; echo $$ > stubborn.tmp; mv stubborn.tmp stubborn; while :; do sleep 0.1; done");
      await ready('stubborn');
      console.log('up');
      setInterval(() => {}, 1000);
    `);
    await script.line('up');
    const pid = pidIn('stubborn');
    script.child.kill('SIGKILL');
    await gone(pid);
  });

  it('lets a process end by the signal it was given, and removes what must not stay', async () => {
    writeFileSync(join(folder, 'handle'), 'x');
    writeFileSync(join(folder, 'kept'), 'x');
    const script = owner(
      `
      await guard.removeOnDeath(${JSON.stringify(join(folder, 'handle'))});
      await guard.removeOnDeath(${JSON.stringify(join(folder, 'kept'))});
      await guard.keep(${JSON.stringify(join(folder, 'kept'))});
      await start("trap 'echo ended > last-words; exit' TERM; echo $$ > polite.tmp; mv polite.tmp polite; while :; do sleep 0.05; done");
      await ready('polite');
      console.log('up');
      setInterval(() => {}, 1000);
    `,
      20_000,
    );
    await script.line('up');
    const pid = pidIn('polite');
    script.child.kill('SIGKILL');
    await gone(pid);
    expect(readFileSync(join(folder, 'last-words'), 'utf8')).toBe('ended\n');
    await vi.waitFor(() => expect(existsSync(join(folder, 'handle'))).toBe(false), 20_000);
    expect(existsSync(join(folder, 'kept'))).toBe(true);
  });

  it('is replaced when it is killed itself', async () => {
    const script = owner(`
      await start('echo $$ > child.tmp; mv child.tmp child; sleep 60');
      await ready('child');
      console.log('up');
      setInterval(() => {}, 1000);
    `);
    await script.line('up');
    const guards = () =>
      childrenOf(script.child.pid ?? 0).filter((pid) => commandLine(pid).includes('guard.sh'));
    const [first = 0] = await vi.waitFor(() => {
      const found = guards();
      expect(found).toHaveLength(1);
      return found;
    }, 20_000);
    process.kill(first, 'SIGKILL');
    await vi.waitFor(() => expect(guards().filter((pid) => pid !== first)).toHaveLength(1), 20_000);
    await delay(TOLD_MS);
    const pid = pidIn('child');
    expect(identify(pid)).toBeDefined();
    script.child.kill('SIGKILL');
    await gone(pid);
  });

  it('says so while no file is left for it, and guards as soon as there is', async () => {
    const [refused, guarded] = ['refused', 'guarded'].map((file) => join(folder, file));
    for (const file of [refused, guarded]) writeFileSync(file as string, 'x');
    const script = runScript(
      `
      ${FILES}
      import { createGuard } from ${here('./guard.ts')};
      import { spawnGuarded } from ${here('./child.ts')};
      takeAll();
      const guard = createGuard({ graceMs: 100 });
      const codes = [];
      for (const told of [guard.removeOnDeath(${JSON.stringify(refused)}), guard.watch(process.pid, 'SIGTERM')])
        await told.catch(({ code, syscall }) => codes.push(code + ' ' + syscall));
      await guard.keep('/nothing');
      console.log(JSON.stringify(codes));
      giveBack();
      await guard.removeOnDeath(${JSON.stringify(guarded)});
      console.log('guarded');
      setInterval(() => {}, 1000);
    `,
      process.env,
      { files: 100 },
    );
    await script.line(JSON.stringify(['EMFILE spawn /bin/sh', 'EMFILE spawn /bin/sh']));
    await script.line('guarded');
    script.child.kill('SIGKILL');
    await vi.waitFor(() => expect(existsSync(guarded as string)).toBe(false), 20_000);
    expect(existsSync(refused as string)).toBe(true);
  });

  it('that was killed while no file was left is replaced when there is one', async () => {
    const guarded = join(folder, 'guarded');
    writeFileSync(guarded, 'x');
    const script = runScript(
      `
      ${FILES}
      import { existsSync } from 'node:fs';
      import { createGuard } from ${here('./guard.ts')};
      const guard = createGuard({ graceMs: 100 });
      await guard.removeOnDeath(${JSON.stringify(guarded)});
      takeAll();
      console.log('up');
      const timer = setInterval(() => {
        if (!existsSync(${JSON.stringify(join(folder, 'free'))})) return;
        giveBack();
        clearInterval(timer);
      }, 20);
      setInterval(() => {}, 1000);
    `,
      process.env,
      { files: 100 },
    );
    await script.line('up');
    const guards = () =>
      childrenOf(script.child.pid ?? 0).filter((pid) => commandLine(pid).includes('guard.sh'));
    const [first = 0] = guards();
    process.kill(first, 'SIGKILL');
    await vi.waitFor(() => expect(guards()).toEqual([]), 20_000);
    writeFileSync(join(folder, 'free'), '');
    await vi.waitFor(() => expect(guards()).toHaveLength(1), 20_000);
    await delay(TOLD_MS);
    script.child.kill('SIGKILL');
    await vi.waitFor(() => expect(existsSync(guarded)).toBe(false), 20_000);
  });

  it('that cannot be told of a process leaves none behind', async () => {
    const refusing: Guard = {
      ...createGuard(),
      watch: () => Promise.reject(Object.assign(new Error('spawn'), { code: 'EMFILE', syscall: 'spawn' })),
    };
    const launch = { command: '/bin/sh', args: ['-c', `echo ran > ${join(folder, 'ran')}`] };
    const started = spawnGuarded({
      launch,
      guard: refusing,
      logFile: join(folder, 'log'),
      stopSignal: 'SIGTERM',
    });
    await expect(started).rejects.toMatchObject({
      message: 'cannot start /bin/sh',
      cause: { code: 'EMFILE' },
    });
    const waiting = childrenOf(process.pid).filter((pid) => commandLine(pid).includes(folder));
    expect(waiting).toEqual([]);
    expect(existsSync(join(folder, 'ran'))).toBe(false);
    await refusing.close();
  });

  it('leaves alone what its owner has ended itself', async () => {
    const guard = createGuard();
    const child = await spawnGuarded({
      launch: { command: '/bin/sh', args: ['-c', 'echo hello; sleep 60'] },
      guard,
      logFile: join(folder, 'log'),
      stopSignal: 'SIGTERM',
    });
    await vi.waitFor(() => expect(readFileSync(join(folder, 'log'), 'utf8')).toBe('hello\n'), 20_000);
    expect(await child.stop(20_000)).toEqual({ code: null, signal: 'SIGTERM' });
    expect(identify(child.pid)).toBeUndefined();
    await guard.close();
    await guard.close();
  });

  it('never runs a command that its guard does not know of', async () => {
    // Simulates an owner that died after it started the process and before the guard knew it: the gate reads the
    // end of its descriptor.
    const script = runScript(`
      import { spawn } from 'node:child_process';
      import { readFileSync } from 'node:fs';
      const gate = /const GATE = '(.*)';/.exec(readFileSync(new URL(${here('./child.ts')}), 'utf8'))[1];
      spawn('/bin/sh', ['-c', gate, 'gate', '/bin/sh', '-c', 'echo ran > ${join(folder, 'ran')}'], {
        detached: true, stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      });
      process.kill(process.pid, 'SIGKILL');
    `);
    await script.exited;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });

  it('says what cannot be started', async () => {
    const guard = createGuard();
    const launch = { command: '/bin/true', args: [], cwd: join(folder, 'nowhere') };
    const started = spawnGuarded({ launch, guard, logFile: join(folder, 'log'), stopSignal: 'SIGTERM' });
    await expect(started).rejects.toThrow('cannot start /bin/true');
    await guard.close();
  });
});
