import { cpus } from 'node:os';
import type { Stack } from '@semblance/testkit/stack/stack';
import { cpuSecondsOf } from '../http/process-use.ts';
import type { AgentProcess } from './agent-process.ts';

/** Returns the CPU seconds that the whole machine has used. */
export function machineCpu(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0) / 1_000;
}

/** Returns the CPU seconds that the stack, the agents at work and this client have used. */
export function ownCpu(stack: Stack, agents: readonly AgentProcess[]): number {
  const pids = [stack.read().services['gpu-agent'] ?? 0, ...agents.map(({ pid }) => pid)];
  const services = [...servicesCpu(stack).values()].reduce((sum, seconds) => sum + seconds, 0);
  return pids.reduce((sum, pid) => sum + (cpuSecondsOf(pid) ?? Number.NaN), services);
}

/** Returns the CPU seconds that this client and each service, without the stack's idle agent, have used. */
export function servicesCpu(stack: Stack): Map<string, number> {
  const { 'gpu-agent': _idle, ...services } = stack.read().services;
  const used = Object.entries(services).map(
    ([name, pid]) => [name, cpuSecondsOf(pid) ?? Number.NaN] as const,
  );
  const { user, system } = process.cpuUsage();
  return new Map([...used, ['client', (user + system) / 1e6]]);
}
