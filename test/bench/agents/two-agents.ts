import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findMediaTools } from '@semblance/media/media';
import { eventually } from '@semblance/testkit/stack/eventually';
import type { RenderJobView } from '@semblance/testkit/stack/kubectl';
import type { Account, Stack } from '@semblance/testkit/stack/stack';
import { apiWrites, writesBetween } from '../lib/api-writes.ts';
import { drainAgents } from '../lib/drain-agents.ts';
import { type BenchContext, figure, type Row, type Section, unmeasuredRow } from '../lib/section.ts';
import { type AgentProcess, startAgentOnCore } from './agent-process.ts';
import { type CpuGroup, findCpuGroups } from './cpu-share.ts';
import { machineCpu, ownCpu, servicesCpu } from './cpu-use.ts';
import { enginesAlone, type Sample } from './engines-alone.ts';

const run = promisify(execFile);

const GOAL = 0.55;
const GOAL_TEXT = `≤ ${GOAL}`;
const ROUNDS = 2;
const PHOTOS = 60;
const VIDEOS = 6;
/** Part of the jobs that is run when each agent has a share of CPU, because they then take longer. */
const FEWER = 2 / 3;
const VIDEO_SECONDS = 4;
const MEDIA = join(import.meta.dirname, '../../../media');
const [BASE, FACE] = [join(MEDIA, 'grace_hopper.jpg'), join(MEDIA, 'astronaut.png')];
const TITLE = 'Two agents';

/**
 * Share of a core for each agent. Two agents and the services fit on two cores, as they would on nodes of their
 * own.
 */
const SHARE = 0.5;

type WorkName = 'photos' | 'videos';

/**
 * Measures how fast two agents work off a queue, compared with one of them, each with one render thread. On shared
 * cores, the services and this client use part of the second agent's core. With a fixed share of CPU, each agent
 * has in both runs what a pod's limit gives it on a node of its own.
 */
export function runTwoAgentsBench(context: BenchContext): Promise<Section> {
  return measure(context, ['photos', 'videos']);
}

export const runTwoAgentsPhotos = (context: BenchContext) => measure(context, ['photos']);
export const runTwoAgentsVideos = (context: BenchContext) => measure(context, ['videos']);

async function measure({ stack, say }: BenchContext, wanted: readonly WorkName[]): Promise<Section> {
  const tools = await findMediaTools();
  const cores = availableParallelism();
  const why =
    process.platform !== 'linux'
      ? 'only on Linux'
      : cores < 2
        ? 'needs two cores'
        : tools.available
          ? undefined
          : tools.reason;
  if (why || !tools.available)
    return { title: TITLE, rows: [unmeasuredRow('a queue', GOAL_TEXT, why ?? '')] };
  const dir = await mkdtemp(join(tmpdir(), 'semblance-bench-agents-'));
  const groups = findCpuGroups();
  const agents: (AgentProcess & { readonly group: CpuGroup | undefined })[] = [];
  await drainAgents(stack);
  try {
    say('agents: starting two, each on a core of its own');
    for (const [index, name] of ['bench-a', 'bench-b'].entries()) {
      const group = groups.available ? groups.make(`semblance-${name}-${process.pid}`) : undefined;
      agents.push({ group, ...(await startAgentOnCore(stack, { name, core: index, dir, group })) });
    }
    await drainAgents(
      stack,
      true,
      agents.map(({ name }) => name),
    );
    const account = await stack.newAccount({ balanceUsd: 10_000 });
    const rows: Row[] = [];
    const notes: string[] = [];
    for (const kind of wanted) {
      const work = await (kind === 'photos' ? photoWork(account) : videoWork(account, tools.ffmpeg, dir));
      const { name } = work;
      const compare = async (count: number, how: string): Promise<void> => {
        const { one, two } = await inTurns(stack, agents, { ...work, count }, say);
        const [alone, both] = [mean(one, 'seconds'), mean(two, 'seconds')];
        rows.push({
          name: `${count} ${name}, two agents, ${how}`,
          ours: `${figure(both)} s`,
          peer: `${figure(alone)} s (one agent)`,
          ratio: (both / alone).toFixed(3),
          goal: GOAL_TEXT,
          met: both / alone <= GOAL ? 'met' : 'not met',
        });
        notes.push(
          `${name}, ${how}: a job took its agent ${figure(mean(one, 'perJob'))} s where one worked and ${figure(mean(two, 'perJob'))} s where two did; ` +
            `beside them the services and this client used ${cpuText(one)} of CPU, and ${cpuText(two)}, ` +
            `and whatever else ran on this machine ${figure(mean(one, 'others'))} s and ${figure(mean(two, 'others'))} s; ` +
            `writes to the Kubernetes API a job: ${writesPerJob(one, count)}, and ${writesPerJob(two, count)}.`,
        );
      };
      // An agent is slower at its first jobs of a kind, because their code is not compiled yet.
      await workOff(stack, agents, Math.ceil(work.count / 2), work.submit);
      await compare(work.count, 'shared cores');
      const how = `${SHARE} of a core each`;
      if (groups.available) {
        const held = () => agents.reduce((sum, { group }) => sum + (group?.throttled() ?? 0), 0);
        const before = held();
        for (const { group } of agents) group?.limit(SHARE);
        await compare(work.count * FEWER, how);
        for (const { group } of agents) group?.limit(undefined);
        notes.push(`${name}, ${how}: the kernel held an agent back in ${held() - before} periods of 0.1 s.`);
      } else {
        rows.push(unmeasuredRow(`${name}, two agents, ${how}`, GOAL_TEXT, groups.why));
      }
      say(`${name}: the engines alone`);
      const bare = await enginesAlone(work.sample, work.count, join(dir, work.sample.capability));
      rows.push({
        name: `${work.count} ${name}, two engines without agents and services`,
        ours: `${figure(bare.two)} s`,
        peer: `${figure(bare.one)} s (one engine)`,
        ratio: (bare.two / bare.one).toFixed(3),
        goal: '',
        met: '',
      });
    }
    return {
      title: TITLE,
      rows,
      notes: [
        `Each agent has one slot and is held to one core of ${cores} with its engine and its ffmpeg. Means of ${ROUNDS} turns, from the first job that begins to the last that ends.`,
        ...notes,
      ],
    };
  } finally {
    for (const agent of agents) await agent.close();
    await drainAgents(stack, false);
    await rm(dir, { recursive: true, force: true });
  }
}

/** Measures one agent and both in turns; the one agent is not always the same. */
async function inTurns(
  stack: Stack,
  agents: readonly AgentProcess[],
  { name, count, submit }: Work,
  say: BenchContext['say'],
): Promise<{ one: Run[]; two: Run[] }> {
  const [one, two]: [Run[], Run[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    one.push(await workOff(stack, agents.slice(round % 2, (round % 2) + 1), count, submit));
    two.push(await workOff(stack, agents, count, submit));
    say(`${name}: one agent ${one.at(-1)?.seconds.toFixed(1)} s, two ${two.at(-1)?.seconds.toFixed(1)} s`);
  }
  return { one, two };
}

interface Run {
  readonly seconds: number;
  /** CPU seconds of all processes of the stack that are not agents, by name. */
  readonly services: ReadonlyMap<string, number>;
  /** CPU seconds of everything else on this machine. */
  readonly others: number;
  /** Mean time from the start to the completion of a job, in seconds. */
  readonly perJob: number;
  /** Writes to the Kubernetes API, from the first submit until the last job lost its finalizers. */
  readonly writes: ReadonlyMap<string, number>;
}

interface Work {
  readonly name: string;
  readonly count: number;
  submit(): Promise<{ readonly id: string }>;
  /** The same work for an engine without an agent. */
  readonly sample: Sample;
}

async function photoWork({ api }: Account): Promise<Work> {
  const [image_key, face_key] = await Promise.all([
    api.upload({ filename: 'base.jpg', bytes: await readFile(BASE) }),
    api.upload({ filename: 'face.png', bytes: await readFile(FACE) }),
  ]);
  return {
    name: 'Photo Swaps',
    count: PHOTOS,
    submit: () => api.swap({ image_key, face_key }),
    sample: { capability: 'face-swap-image', inputs: { image: BASE, face: FACE } },
  };
}

async function videoWork({ api }: Account, ffmpeg: string, dir: string): Promise<Work> {
  const clip = join(dir, 'clip.mp4');
  await run(ffmpeg, [
    ...['-v', 'error', '-loop', '1', '-i', BASE, '-t', String(VIDEO_SECONDS)],
    ...['-vf', 'scale=-2:540,pad=900:540:-1:-1,crop=854:480:20+20*sin(n/9):30+20*cos(n/7)', '-r', '25'],
    ...['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', clip],
  ]);
  const [video_key, face_key] = await Promise.all([
    api.upload({ filename: 'clip.mp4', bytes: await readFile(clip) }),
    api.upload({ filename: 'face.png', bytes: await readFile(FACE) }),
  ]);
  return {
    sample: { capability: 'face-swap', inputs: { video: clip, face: FACE } },
    name: `Video Swaps of ${VIDEO_SECONDS} s at 480p`,
    count: VIDEOS,
    async submit() {
      const answer = await api.post('/face-swap', { video_key, face_key });
      if (answer.status !== 200) throw new Error(`answered ${answer.status} ${answer.text}`);
      return answer.body as { id: string };
    },
  };
}

/** Queues jobs while all agents are drained, lets the given agents take them, and waits for the last job. */
async function workOff(
  stack: Stack,
  agents: readonly AgentProcess[],
  count: number,
  submit: Work['submit'],
): Promise<Run> {
  const names = agents.map(({ name }) => name);
  const ids = new Set<string>();
  const written = await apiWrites(stack);
  for (let i = 0; i < count; i++) ids.add((await submit()).id);
  await each(stack, ids, 'to wait', ({ status }) => status?.phase === 'Pending');
  const before = servicesCpu(stack);
  const [machine, own] = [machineCpu(), ownCpu(stack, agents)];
  await drainAgents(stack, false, names);
  const done = await each(stack, ids, 'to end', ({ status }) => status?.completionTime !== undefined);
  const after = servicesCpu(stack);
  const others = machineCpu() - machine - (ownCpu(stack, agents) - own);
  await drainAgents(stack, true, names);
  await each(stack, ids, 'to be let go', ({ metadata }) => !metadata.finalizers?.length);
  const writes = writesBetween(written, await apiWrites(stack));
  const failed = done.find(({ status }) => status?.phase !== 'Succeeded');
  if (failed) throw new Error(`a job failed: ${JSON.stringify(failed.status?.failure)}`);
  const times = (name: 'startTime' | 'completionTime') =>
    done.map(({ status }) => Date.parse(status?.[name] ?? ''));
  return {
    seconds: (Math.max(...times('completionTime')) - Math.min(...times('startTime'))) / 1_000,
    services: new Map([...after].map(([name, used]) => [name, used - (before.get(name) ?? Number.NaN)])),
    others,
    perJob: done.reduce((sum, { status }) => sum + lengthOf(status) / count, 0),
    writes,
  };
}

/**
 * Returns the jobs when each satisfies the condition. It polls one job at a time, so that polling costs next to
 * nothing.
 */
async function each(
  stack: Stack,
  ids: ReadonlySet<string>,
  what: string,
  wanted: (job: RenderJobView) => boolean,
): Promise<RenderJobView[]> {
  const jobs: RenderJobView[] = [];
  for (const id of ids) {
    const look = async () => {
      const job = await stack.kubectl.renderJob(id);
      return job && wanted(job) ? job : undefined;
    };
    jobs.push(await eventually(`job ${id} ${what}`, look, { withinMs: 180_000, everyMs: 500 }));
  }
  return jobs;
}

/** Returns the time from the start to the completion, in seconds. */
function lengthOf(status: RenderJobView['status']): number {
  return (Date.parse(status?.completionTime ?? '') - Date.parse(status?.startTime ?? '')) / 1_000;
}

function mean(runs: readonly Run[], what: 'seconds' | 'perJob' | 'others'): number {
  return runs.reduce((sum, each) => sum + each[what], 0) / runs.length;
}

function cpuText(runs: readonly Run[]): string {
  const of = (name: string) =>
    runs.reduce((sum, { services }) => sum + (services.get(name) ?? 0), 0) / runs.length;
  const names = [...(runs[0]?.services.keys() ?? [])].sort((a, b) => of(b) - of(a));
  const parts = names.map((name) => `${name} ${figure(of(name))}`);
  return `${figure(names.reduce((sum, name) => sum + of(name), 0))} s (${parts.join(', ')})`;
}

/**
 * Formats the writes per job, in total and by kind. It counts RenderJobs and events only, because Leases and agents
 * are written on a schedule.
 */
function writesPerJob(runs: readonly Run[], count: number): string {
  const kinds = new Map<string, number>();
  for (const { writes } of runs) {
    for (const [what, times] of writes) {
      if (!/ (renderjobs|events)/.test(what)) continue;
      kinds.set(what, (kinds.get(what) ?? 0) + times / (runs.length * count));
    }
  }
  const all = [...kinds.values()].reduce((sum, each) => sum + each, 0);
  const parts = [...kinds].sort(([a], [b]) => (a < b ? -1 : 1)).map(([what, n]) => `${what} ${figure(n)}`);
  return `${figure(all)} (${parts.join(', ')})`;
}
