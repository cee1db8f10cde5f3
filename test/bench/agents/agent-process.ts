import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { eventually } from '@semblance/testkit/stack/eventually';
import type { Stack } from '@semblance/testkit/stack/stack';
import { root } from '@semblance/testkit/stack/stack-process';
import type { CpuGroup } from './cpu-share.ts';

/** An agent of the benchmark, beside that of the stack. */
export interface AgentProcess {
  readonly name: string;
  readonly pid: number;
  close(): Promise<void>;
}

/**
 * Starts an agent with one slot, and so one render thread. `taskset` holds it and all its children to one core. It
 * gets the environment of the stack's own agent. Linux only.
 */
export async function startAgentOnCore(
  stack: Stack,
  options: {
    readonly name: string;
    readonly core: number;
    readonly dir: string;
    /** Limits the CPU time of the agent; removed together with it. */
    readonly group?: CpuGroup | undefined;
  },
): Promise<AgentProcess> {
  const { name, core, dir, group } = options;
  const logFile = join(dir, `${name}.log`);
  const log = openSync(logFile, 'a', 0o600);
  const guard: Guard = createGuard({ graceMs: 15_000 });
  let child: ChildProcess;
  try {
    const agent = [process.execPath, ...AGENT_FLAGS, join(root, 'gpu-agent/main.ts')];
    const command = ['taskset', '-c', String(core), ...agent];
    // The shell enters the group first, so that all its children are in the group too.
    const script = 'if [ -n "$0" ]; then echo $$ > "$0"; fi; exec "$@"';
    child = spawn('sh', ['-c', script, group?.procs ?? '', ...command], {
      detached: true,
      stdio: ['ignore', log, log],
      env: {
        ...environmentOf(stack.read().services['gpu-agent'] ?? 0),
        SEMBLANCE_AGENT_NAME: name,
        SEMBLANCE_AGENT_SLOTS: '1',
        SEMBLANCE_AGENT_LISTEN: '127.0.0.1:0',
        SEMBLANCE_HEALTH_LISTEN: '127.0.0.1:0',
        SEMBLANCE_AGENT_WORK_DIR: join(dir, name),
      },
    });
  } finally {
    closeSync(log);
  }
  const { pid } = child;
  if (pid === undefined) throw new Error('no shell can be started');
  let ended = false;
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => {
      ended = true;
      resolve();
    });
  });
  await guard.watch(pid, 'SIGTERM');
  const close = async () => {
    if (!ended) process.kill(pid, 'SIGTERM');
    await exited;
    await guard.forget(pid);
    await guard.close();
    // The last process of the agent may end a moment later.
    if (group)
      await eventually(`the group of ${name} to be empty`, () => removed(group), { withinMs: 10_000 });
    await stack.kubectl(['delete', 'gpuagent', name, '--ignore-not-found']);
  };
  try {
    await eventually(
      `agent ${name} to be ready`,
      async () => {
        if (ended) throw new Error(readFileSync(logFile, 'utf8').slice(-2_000));
        const agent = JSON.parse(await stack.kubectl(['get', 'gpuagent', name, '-o', 'json']));
        const { conditions = [], slots } = agent.status ?? {};
        const ready = conditions.some(
          (each: { type: string; status: string }) => each.type === 'Ready' && each.status === 'True',
        );
        return ready && slots === 1 ? true : undefined;
      },
      { withinMs: 90_000 },
    );
  } catch (error) {
    await close();
    throw error;
  }
  return { name, pid, close };
}

function removed(group: CpuGroup): true {
  group.remove();
  return true;
}

function environmentOf(pid: number): NodeJS.ProcessEnv {
  const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
  return Object.fromEntries(
    pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
}
