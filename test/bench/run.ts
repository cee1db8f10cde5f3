/**
 * `npm run bench` measures every figure that the project promises, on this machine, with its own stack. Prints a table per section and writes it to reports/<section>.md. Pictures of some sections go to bench-out/.
 *
 * Arguments choose sections by name (`npm run bench -- jobs photo-swap`); without any, all run. The exit status
 * says whether everything could be measured. It does not depend on the goals, because they depend on the machine.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import { stackAt } from '@semblance/testkit/stack/stack';
import { root, startStackProcess } from '@semblance/testkit/stack/stack-process';
import { formatSection, machineLine } from './lib/report.ts';
import { type BenchContext, figure, type Section } from './lib/section.ts';
import type { BenchRow } from './photo-swap/bench-row.ts';

type Run = (context: BenchContext) => Promise<Section | readonly Section[]>;

/** Returns a section that is loaded when it runs, so that a slow or faulty section does not affect the others. */
const section =
  <Name extends string>(load: () => Promise<Readonly<Record<Name, Run>>>, name: Name): Run =>
  async (context) =>
    (await load())[name](context);

const runTwoAgentsBench = section(() => import('./agents/two-agents.ts'), 'runTwoAgentsBench');
const runAllocationBench = section(() => import('./allocation/allocation-bench.ts'), 'runAllocationBench');
const runTwoAgentsPhotos = section(() => import('./agents/two-agents.ts'), 'runTwoAgentsPhotos');
const runTwoAgentsVideos = section(() => import('./agents/two-agents.ts'), 'runTwoAgentsVideos');
const runAvatarBench = section(() => import('./avatar/avatar-bench.ts'), 'runAvatarBench');
const runEventStreamsBench = section(() => import('./http/event-streams.ts'), 'runEventStreamsBench');
const runGetJobBench = section(() => import('./http/get-job.ts'), 'runGetJobBench');
const runUploadBench = section(() => import('./http/upload.ts'), 'runUploadBench');
const runIdentitySwapBench = section(
  () => import('./identity-swap/identity-swap-bench.ts'),
  'runIdentitySwapBench',
);
const runStartLatencyBench = section(() => import('./jobs/start-latency.ts'), 'runStartLatencyBench');
const runStreamsBench = section(() => import('./live/streams-bench.ts'), 'runStreamsBench');
const runDispatchBench = section(() => import('./scale/dispatch.ts'), 'runDispatchBench');
const runMemoryAtScale = section(() => import('./scale/memory.ts'), 'runMemoryAtScale');
const runThroughputBench = section(() => import('./scale/throughput.ts'), 'runThroughputBench');
const runSubmitRateBench = section(() => import('./jobs/submit-rate.ts'), 'runSubmitRateBench');
const runLedgerBench = section(() => import('./ledger/ledger-bench.ts'), 'runLedgerBench');
const runLiveRelayBench = section(() => import('./live-relay/relay-bench.ts'), 'runLiveRelayBench');
const runLiveSwapBench = section(() => import('./live-swap/live-swap-bench.ts'), 'runLiveSwapBench');
const runLipSyncBench = section(() => import('./lip-sync/lip-sync-bench.ts'), 'runLipSyncBench');
const runMediaBench = section(() => import('./media/media-bench.ts'), 'runMediaBench');
const runMemoryBench = section(() => import('./media/memory-bench.ts'), 'runMemoryBench');
const runMotionBench = section(() => import('./motion/motion-bench.ts'), 'runMotionBench');
const runOnnxBench = section(() => import('./onnx/session-bench.ts'), 'runOnnxBench');
const runDevicesBench = section(() => import('./onnx/devices-bench.ts'), 'runDevicesBench');
const runSwapCpuBench = section(() => import('./onnx/swap-cpu-bench.ts'), 'runSwapCpuBench');
const runAccountsMonthBench = section(() => import('./usage/accounts-month.ts'), 'runAccountsMonthBench');
const runLongHistoryBench = section(() => import('./usage/long-history.ts'), 'runLongHistoryBench');
const runRealismBench = section(() => import('./realism/realism-bench.ts'), 'runRealismBench');
const runVideoSwapBench = section(() => import('./video-swap/video-swap-bench.ts'), 'runVideoSwapBench');
const runVoiceBench = section(() => import('./voice/voice-bench.ts'), 'runVoiceBench');
const runVoiceHourBench = section(() => import('./voice/voice-hour-bench.ts'), 'runVoiceHourBench');
const runWordsBench = section(() => import('./voice/words-bench.ts'), 'runWordsBench');
const runWebhookBench = section(() => import('./webhooks/webhook-bench.ts'), 'runWebhookBench');

/**
 * Sections by the name that chooses them. Submits and scale come last, because they leave thousands of jobs behind.
 */
const SECTIONS: Record<string, readonly Run[]> = {
  http: [runGetJobBench, runUploadBench],
  events: [runEventStreamsBench],
  'photo-swap': [photoSwap],
  realism: [runRealismBench],
  media: [runMediaBench],
  memory: [runMemoryBench],
  'video-swap': [runVideoSwapBench],
  'identity-swap': [runIdentitySwapBench],
  avatar: [runAvatarBench],
  motion: [runMotionBench],
  'lip-sync': [runLipSyncBench],
  voice: [runVoiceBench, runWordsBench, runVoiceHourBench],
  live: [runStreamsBench],
  'live-relay': [runLiveRelayBench],
  'live-swap': [runLiveSwapBench],
  onnx: [runOnnxBench, runSwapCpuBench, runDevicesBench],
  agents: [runTwoAgentsBench],
  usage: [runLongHistoryBench, runAccountsMonthBench],
  ledger: [runLedgerBench],
  webhooks: [runWebhookBench],
  allocation: [runAllocationBench],
  jobs: [runStartLatencyBench, runSubmitRateBench],
  scale: [runDispatchBench, runThroughputBench, runMemoryAtScale],
};

/** Parts of a section, for people who work on what they measure. */
const PARTS: Record<string, readonly Run[]> = {
  'agents/photos': [runTwoAgentsPhotos],
  'agents/videos': [runTwoAgentsVideos],
  'http/reads': [runGetJobBench],
  'http/uploads': [runUploadBench],
  'jobs/submits': [runSubmitRateBench],
  'onnx/devices': [runDevicesBench],
  'onnx/swap': [runSwapCpuBench],
  'scale/dispatch': [runDispatchBench],
  'scale/memory': [runMemoryAtScale],
  'scale/throughput': [runThroughputBench],
  'usage/accounts': [runAccountsMonthBench],
  'voice/hour': [runVoiceHourBench],
  'voice/words': [runWordsBench],
};

const wanted = process.argv.slice(2);
const known = { ...SECTIONS, ...PARTS };
const unknown = wanted.filter((name) => !Object.hasOwn(known, name));
if (unknown.length) {
  console.error(`no such section: ${unknown.join(', ')}; there are ${Object.keys(known).join(', ')}`);
  process.exit(2);
}

const outDir = join(root, 'bench-out');
await mkdir(outDir, { recursive: true });
const reportsDir = join(root, 'reports');
const say = (line: string) => void process.stderr.write(`${line}\n`);
console.log(`# Benchmarks\n\n${machineLine()}\n`);

const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => ending.abort(new Error(`ended by ${signal}`)));
}

say('starting a stack');
const running = await startStackProcess();
let failed = 0;
try {
  const context: BenchContext = { stack: stackAt(running.file), outDir, say };
  for (const [name, runs] of Object.entries(wanted.length ? known : SECTIONS)) {
    if (wanted.length && !wanted.includes(name)) continue;
    const parts: string[] = [];
    for (const run of runs) {
      if (ending.signal.aborted) break;
      const { text, measured } = await measure(name, run, context);
      parts.push(text);
      if (!measured) failed++;
    }
    // A single part must not replace the report of its section.
    if (Object.hasOwn(SECTIONS, name) && !ending.signal.aborted) await writeReport(name, parts);
  }
} finally {
  await running.close();
}
process.exitCode = failed || ending.signal.aborted ? 1 : 0;

/** Measures the engine alone, in this process; other sections measure what the system adds. */
async function photoSwap({ outDir, say }: BenchContext): Promise<Section> {
  const { runPhotoSwapBench } = await import('./photo-swap/photo-swap-bench.ts');
  const rows = await runPhotoSwapBench({ log: say, outputDir: outDir });
  const verdict = (met: BenchRow['met']) => (met === undefined ? '' : met ? 'met' : 'not met');
  return {
    title: 'Photo Swap',
    rows: rows.map(({ name, ours, peer, ratio, goal, met, unit }) => ({
      name,
      ours: `${figure(ours)} ${unit}`.trim(),
      peer: peer === undefined ? '' : `${figure(peer)} ${unit}`.trim(),
      ratio: ratio?.toFixed(2) ?? '',
      goal: goal ?? '',
      met: verdict(met),
    })),
    notes: [`The contact sheet (source, base, result) is in ${outDir}.`],
  };
}

/** Runs a part of a section and prints its tables. If the part fails, it prints the failure in their place. */
async function measure(
  name: string,
  run: Run,
  context: BenchContext,
): Promise<{ text: string; measured: boolean }> {
  try {
    const made = await Promise.race([run(context), aborted()]);
    const text = ([made].flat() as Section[]).map(formatSection).join('\n');
    console.log(text);
    return { text, measured: true };
  } catch (error) {
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    console.log(`## ${name}\n\nNot measured: ${why}\n`);
    return { text: `## ${name}\n\nNot measured: ${describeError(error)}\n`, measured: false };
  }
}

async function writeReport(name: string, parts: readonly string[]): Promise<void> {
  const path = join(reportsDir, `${name}.md`);
  const day = new Date().toISOString().slice(0, 10);
  const head = `# Report: ${name}\n\nMeasured on ${day}: ${machineLine()}.\nAgain by \`npm run bench -- ${name}\`.\n`;
  await writeFile(path, `${head}\n${parts.join('\n')}`);
  say(`written to ${path}`);
}

function aborted(): Promise<never> {
  return new Promise((_resolve, reject) => {
    ending.signal.addEventListener('abort', () => reject(ending.signal.reason as Error), { once: true });
  });
}
