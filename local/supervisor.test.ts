import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { endLeftovers, recordChildren } from './process/children-record.ts';
import { identify } from './process/identity.ts';
import type { ServiceSpec } from './process/service.ts';
import { createSupervisor, type Supervisor, type SupervisorEvent } from './supervisor.ts';

let folder: string;
let guard: Guard;
let running: Supervisor | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-supervisor-'));
  guard = createGuard();
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await guard.close();
  rmSync(folder, { recursive: true, force: true });
});

const file = (name: string) => join(folder, name);
const trace = () => (existsSync(file('trace')) ? readFileSync(file('trace'), 'utf8').trim().split('\n') : []);

/** Returns a service whose real process writes its start and end to `trace`, and is ready once `<name>.up` exists. */
function shellService(
  name: string,
  options: { after?: string[]; body?: string; ignoreTerm?: boolean; serves?: boolean } = {},
): ServiceSpec {
  const { body = 'while :; do sleep 0.02; done', serves = true } = options;
  const onTerm = options.ignoreTerm ? '' : `echo "${name} ends" >> trace; rm -f ${name}.up; exit 0`;
  return {
    name,
    after: options.after,
    launch: async () => ({
      command: '/bin/sh',
      args: [
        '-c',
        `trap '${onTerm}' TERM; echo "${name} begins" >> trace; ${serves ? `touch ${name}.up;` : ''} ${body}`,
      ],
      cwd: folder,
    }),
    probe: async () => {
      if (!existsSync(file(`${name}.up`))) throw new Error('not up');
    },
    stopSignal: 'SIGTERM',
    // Long, so that a busy machine changes nothing; tests of short times set their own.
    graceMs: 20_000,
    readyWithinMs: 20_000,
  };
}

function supervise(services: ServiceSpec[], onEvent?: (event: SupervisorEvent) => void, stableMs = 60_000) {
  running = createSupervisor({
    services,
    guard,
    logDir: file('logs'),
    childrenFile: file('children.json'),
    onEvent,
    backoff: { initialMs: 40, maxMs: 200, stableMs },
  });
  return running;
}

describe('supervisor', () => {
  it('starts a service again that is asked for, in order, once, and counts no failure', async () => {
    const events: SupervisorEvent[] = [];
    const supervisor = supervise([shellService('gateway')], (event) => events.push(event));
    await supervisor.start();
    const { gateway: before } = supervisor.pids();
    supervisor.restart('gateway', 'a.ts was saved');
    supervisor.restart('gateway', 'b.ts was saved');
    supervisor.restart('nobody', 'c.ts was saved');
    await expect.poll(() => events.filter(({ type }) => type === 'ready').length).toBe(2);
    expect(trace()).toEqual(['gateway begins', 'gateway ends', 'gateway begins']);
    expect(supervisor.pids().gateway).not.toBe(before);
    expect(events.filter(({ type }) => type === 'restarting' || type === 'failed')).toEqual([
      { type: 'restarting', service: 'gateway', why: 'a.ts was saved' },
    ]);
  });

  it('starts what others need first, and ends it last', async () => {
    const supervisor = supervise([
      shellService('gateway', { after: ['control'] }),
      shellService('control', { after: ['database', 'nothing-of-ours'] }),
      shellService('database'),
    ]);
    await supervisor.start();
    expect(trace()).toEqual(['database begins', 'control begins', 'gateway begins']);
    const pids = Object.values(supervisor.pids());
    expect(Object.keys(supervisor.pids()).sort()).toEqual(['control', 'database', 'gateway']);
    await supervisor.stop();
    expect(trace().slice(3)).toEqual(['gateway ends', 'control ends', 'database ends']);
    for (const pid of pids) expect(identify(pid)).toBeUndefined();
  });

  it('starts again what ends, says so, and hesitates longer each time', async () => {
    const events: SupervisorEvent[] = [];
    const supervisor = supervise([shellService('x'), shellService('other')], (event) => events.push(event));
    await supervisor.start();
    const other = supervisor.pids().other;
    const seen = new Set<number>();
    for (let round = 0; round < 3; round++) {
      const pid = supervisor.pids().x as number;
      seen.add(pid);
      process.kill(pid, 'SIGKILL');
      await vi.waitFor(
        () => expect(events.filter(({ type }) => type === 'ready')).toHaveLength(3 + round),
        20_000,
      );
    }
    expect(seen.size).toBe(3);
    expect(supervisor.pids().other).toBe(other);
    const failures = events.filter((event) => event.type === 'failed');
    expect(failures.map(({ service, why }) => [service, /killed by SIGKILL/.test(why)])).toEqual(
      Array(3).fill(['x', true]),
    );
    const delays = failures.map(({ restartInMs }) => restartInMs);
    for (const [index, full] of [40, 80, 160].entries()) {
      expect(delays[index]).toBeGreaterThanOrEqual(full / 2);
      expect(delays[index]).toBeLessThanOrEqual(full);
    }
    expect(events.findLast(({ type }) => type === 'ready')).toMatchObject({ service: 'x', restarts: 3 });
  });

  it('forgets former failures of what has served for a while', async () => {
    const failures: number[] = [];
    let served = 0;
    const onEvent = (event: SupervisorEvent) => {
      if (event.type === 'failed') failures.push(event.restartInMs);
      if (event.type === 'ready') served++;
    };
    const supervisor = supervise([shellService('x')], onEvent, 400);
    await supervisor.start();
    for (const [round, servesMs] of [0, 0, 600].entries()) {
      await new Promise((resolve) => setTimeout(resolve, servesMs));
      process.kill(supervisor.pids().x as number, 'SIGKILL');
      await vi.waitFor(() => expect([failures.length, served]).toEqual([round + 1, round + 2]), 20_000);
    }
    expect(failures[2]).toBeLessThanOrEqual(40);
  });

  it('has started when all serve at the same time', async () => {
    const served: string[] = [];
    const supervisor = supervise(
      [
        // The process ends after it was seen as ready; its second life takes a while to become ready.
        shellService('x', {
          serves: false,
          body: `if [ -e x.seen ]; then sleep 0.5; touch x.up; while :; do sleep 0.02; done; fi
            touch x.up; while [ ! -e x.seen ]; do sleep 0.02; done; rm x.up; exit 1`,
        }),
        shellService('late', {
          serves: false,
          body: 'while [ ! -e x.ended ]; do sleep 0.02; done; touch late.up; while :; do sleep 0.02; done',
        }),
      ],
      (event) => {
        // The supervisor learns of the end some time after it; until then the service counts as serving.
        if (event.type === 'failed') writeFileSync(file('x.ended'), '');
        if (event.type !== 'ready') return;
        served.push(event.service);
        if (event.service === 'x') writeFileSync(file('x.seen'), '');
      },
    );
    await supervisor.start();
    expect(served).toEqual(['x', 'late', 'x']);
  });

  it('gives up a start that fails again and again, with the end of its log', async () => {
    const supervisor = supervise([
      shellService('x', { serves: false, body: 'echo "no such flag" >&2; exit 3' }),
    ]);
    const failing = supervisor.start();
    await expect(failing).rejects.toThrow(
      /x ended at start \(exit status 3\); the end of .*x\.log:[\s\S]*no such flag/,
    );
    expect(trace()).toEqual(Array(3).fill('x begins'));
  });

  it('ends what runs and does not serve, by force if need be', async () => {
    const deaf = shellService('x', { ignoreTerm: true, serves: false });
    const pids: number[] = [];
    const supervisor = supervise([{ ...deaf, readyWithinMs: 200, graceMs: 100 }], (event) => {
      if (event.type === 'started') pids.push(event.pid);
    });
    await expect(supervisor.start()).rejects.toThrow('x did not answer within 0 s: not up');
    expect(pids).toHaveLength(3);
    for (const pid of pids) expect(identify(pid)).toBeUndefined();
  });

  it('leaves nothing running when it is stopped in the middle of a start', async () => {
    const never = {
      ...shellService('slow', { after: ['first'], serves: false }),
      readyWithinMs: 60_000,
    };
    const pids: number[] = [];
    const supervisor = supervise([shellService('first'), never], (event) => {
      if (event.type === 'started') pids.push(event.pid);
    });
    const starting = supervisor.start();
    await vi.waitFor(() => expect(pids).toHaveLength(2), 20_000);
    await Promise.all([expect(starting).rejects.toThrow('stopping'), supervisor.stop()]);
    for (const pid of pids) expect(identify(pid)).toBeUndefined();
  });

  it('appends to one log per service and does what is asked once it serves', async () => {
    let done = 0;
    const spec: ServiceSpec = {
      ...shellService('x', { body: 'echo hello; while :; do sleep 0.02; done' }),
      whenReady: async () => {
        done++;
      },
    };
    const supervisor = supervise([spec]);
    await supervisor.start();
    const logged = (text: string) =>
      vi.waitFor(() => expect(readFileSync(file('logs/x.log'), 'utf8')).toBe(text), 20_000);
    await logged('hello\n');
    process.kill(supervisor.pids().x as number, 'SIGKILL');
    await vi.waitFor(() => expect(done).toBe(2), 20_000);
    await logged('hello\nhello\n');
  });
});

describe('what an earlier supervisor left', () => {
  it('is ended, and only that', async () => {
    const supervisor = supervise([shellService('polite'), shellService('deaf', { ignoreTerm: true })]);
    await supervisor.start();
    const pids = Object.values(supervisor.pids());
    const recorded = readFileSync(file('children.json'), 'utf8');
    const strangers = [{ pid: process.pid, since: 'another time' }];
    writeFileSync(file('strangers.json'), JSON.stringify(strangers));
    expect(await endLeftovers(file('strangers.json'), 100)).toEqual([]);

    writeFileSync(file('left.json'), recorded);
    // This is the state after kill -9 of supervisor and guard: nobody restarts the services, so this supervisor
    // must not either.
    const ending = endLeftovers(file('left.json'), 200);
    const stopping = supervisor.stop();
    expect((await ending).sort()).toEqual(pids.sort());
    for (const pid of pids) expect(identify(pid)).toBeUndefined();
    await stopping;
    expect(await endLeftovers(file('left.json'), 200)).toEqual([]);
  });

  it('may be written down badly or not at all', async () => {
    recordChildren(file('children.json'), [process.pid, 999_999_999]);
    expect(JSON.parse(readFileSync(file('children.json'), 'utf8'))).toEqual([identify(process.pid)]);
    writeFileSync(file('torn.json'), '[{"pid": 1');
    expect(await endLeftovers(file('torn.json'), 100)).toEqual([]);
    expect(await endLeftovers(file('nothing.json'), 100)).toEqual([]);
  });
});
