import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findMediaTools } from '../../../gpu-agent/media/media.ts';
import { eventually } from '../../support/eventually.ts';
import type { RenderJobView } from '../../support/kubectl.ts';
import type { Account, Stack } from '../../support/stack.ts';
import { cpuSecondsOf } from '../http/process-use.ts';
import { drainAgents } from '../lib/drain-agents.ts';
import { type BenchContext, figure, type Row, type Section, unmeasuredRow } from '../lib/section.ts';
import { type AgentProcess, startAgentOnCore } from './agent-process.ts';
import { enginesAlone, type Sample } from './engines-alone.ts';

const run = promisify(execFile);

const GOAL = 0.55;
const ROUNDS = 2;
const PHOTOS = 60;
const VIDEOS = 6;
const VIDEO_SECONDS = 4;
const MEDIA = join(import.meta.dirname, '../../../media');
const [BASE, FACE] = [join(MEDIA, 'grace_hopper.jpg'), join(MEDIA, 'astronaut.png')];
const TITLE = 'Two agents';

/**
 * The time in which two agents work off a queue, against one of them alone. Each has one render thread and one core to
 * itself as far as agents go; the services and this client run wherever the kernel puts them.
 */
export async function runTwoAgentsBench({ stack, say }: BenchContext): Promise<Section> {
  const goal = `≤ ${GOAL}`;
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
  if (why || !tools.available) return { title: TITLE, rows: [unmeasuredRow('a queue', goal, why ?? '')] };
  const dir = await mkdtemp(join(tmpdir(), 'semblance-bench-agents-'));
  const agents: AgentProcess[] = [];
  await drainAgents(stack);
  try {
    say('agents: starting two, each on a core of its own');
    for (const [index, name] of ['bench-a', 'bench-b'].entries()) {
      agents.push(await startAgentOnCore(stack, { name, core: index, dir }));
    }
    const names = agents.map(({ name }) => name);
    await drainAgents(stack, true, names);
    const account = await stack.newAccount({ balanceUsd: 10_000 });
    const works = [await photoWork(account), await videoWork(account, tools.ffmpeg, dir)];
    const rows: Row[] = [];
    const notes: string[] = [];
    for (const { name, count, submit, sample } of works) {
      // An agent that has just begun with a kind is slower, for its code is not compiled yet.
      await workOff(stack, agents, Math.ceil(count / 2), submit);
      const one: Run[] = [];
      const two: Run[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        one.push(await workOff(stack, agents.slice(round % 2, (round % 2) + 1), count, submit));
        two.push(await workOff(stack, agents, count, submit));
        say(
          `${name}: one agent ${one.at(-1)?.seconds.toFixed(1)} s, two ${two.at(-1)?.seconds.toFixed(1)} s`,
        );
      }
      const [alone, both] = [mean(one, 'seconds'), mean(two, 'seconds')];
      rows.push({
        name: `${count} ${name}, two agents`,
        ours: `${figure(both)} s`,
        peer: `${figure(alone)} s (one agent)`,
        ratio: (both / alone).toFixed(3),
        goal,
        met: both / alone <= GOAL ? 'met' : 'not met',
      });
      say(`${name}: the engines alone`);
      const bare = await enginesAlone(sample, count, join(dir, sample.capability));
      rows.push({
        name: `the same, two engines without agents and services`,
        ours: `${figure(bare.two)} s`,
        peer: `${figure(bare.one)} s (one engine)`,
        ratio: (bare.two / bare.one).toFixed(3),
        ...{ goal: '', met: '' },
      });
      notes.push(
        `${name}: a job took its agent ${figure(mean(one, 'perJob'))} s where one worked and ${figure(mean(two, 'perJob'))} s where two did; ` +
          `the services and this client used ${figure(mean(one, 'services'))} s and ${figure(mean(two, 'services'))} s of CPU beside them.`,
      );
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

interface Run {
  readonly seconds: number;
  /** CPU seconds of what is not an agent. */
  readonly services: number;
  /** Mean time that an agent took over a job. */
  readonly perJob: number;
}

interface Work {
  readonly name: string;
  readonly count: number;
  submit(): Promise<{ readonly id: string }>;
  /** The same for an engine without an agent. */
  readonly sample: Sample;
}

async function photoWork({ api }: Account): Promise<Work> {
  const [image_key, face_key] = await Promise.all([
    api.upload({ filename: 'base.jpg', bytes: await readFile(BASE) }),
    api.upload({ filename: 'face.png', bytes: await readFile(FACE) }),
  ]);
  return {
    ...{ name: 'Photo Swaps', count: PHOTOS },
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

/** Queues jobs while nobody takes them, lets the agents named at them, and waits for the last. */
async function workOff(
  stack: Stack,
  agents: readonly AgentProcess[],
  count: number,
  submit: Work['submit'],
): Promise<Run> {
  const names = agents.map(({ name }) => name);
  const ids = new Set<string>();
  for (let i = 0; i < count; i++) ids.add((await submit()).id);
  await each(stack, ids, 'to wait', ({ status }) => status?.phase === 'Pending');
  const before = servicesCpu(stack);
  await drainAgents(stack, false, names);
  const done = await each(stack, ids, 'to end', ({ status }) => status?.completionTime !== undefined);
  const after = servicesCpu(stack);
  await drainAgents(stack, true, names);
  const failed = done.find(({ status }) => status?.phase !== 'Succeeded');
  if (failed) throw new Error(`a job failed: ${JSON.stringify(failed.status?.failure)}`);
  const times = (name: 'startTime' | 'completionTime') =>
    done.map(({ status }) => Date.parse(status?.[name] ?? ''));
  return {
    seconds: (Math.max(...times('completionTime')) - Math.min(...times('startTime'))) / 1_000,
    services: after - before,
    perJob: done.reduce((sum, { status }) => sum + lengthOf(status) / count, 0),
  };
}

/** The jobs, once each is as wanted. One is looked at at a time, so that looking costs next to nothing. */
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

/** CPU seconds that the services, without the stack's idle agent, and this client have used so far. */
function servicesCpu(stack: Stack): number {
  const { 'gpu-agent': _idle, ...services } = stack.read().services;
  const { user, system } = process.cpuUsage();
  const used = Object.values(services).map((pid) => cpuSecondsOf(pid) ?? Number.NaN);
  return used.reduce((all, seconds) => all + seconds, 0) + (user + system) / 1e6;
}

/** Seconds. */
function lengthOf(status: RenderJobView['status']): number {
  return (Date.parse(status?.completionTime ?? '') - Date.parse(status?.startTime ?? '')) / 1_000;
}

function mean(runs: readonly Run[], what: keyof Run): number {
  return runs.reduce((sum, each) => sum + each[what], 0) / runs.length;
}
