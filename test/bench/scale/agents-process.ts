/**
 * Simulated agents for the benchmark of scale, in one process: each with a gRPC server, a GpuAgent and a Lease of its
 * own, in the manner of KWOK's nodes. A render takes a set time and nothing else.
 * Arguments: kubeconfig, namespace, slots of each, milliseconds of a render, seconds of a Lease, which is renewed four
 * times in that. Reads lines: `agents N` has N of them run, `taken` prints when which job was taken on since it was last
 * asked ([name, Unix milliseconds]), `begun` how many attempts there were in all. Ends with its standard input.
 */
import { createInterface } from 'node:readline';
import { createKubeClient } from '@semblance/common/kube/index';
import { type FakeAgent, type Run, startFakeAgent } from '@semblance/testkit/operator/fake-agent';

const [kubeconfigPath = '', namespace = '', slots = '', renderMs = '', leaseSeconds = ''] =
  process.argv.slice(2);
/** Registered at once. */
const AT_ONCE = 16;

const client = createKubeClient({ kubeconfigPath, fieldManager: 'semblance-agent' });
const started: FakeAgent[] = [];
let taken: [string, number][] = [];

const script = (run: Run) => {
  taken.push([run.request.jobName, performance.timeOrigin + performance.now()]);
  setTimeout(run.succeed, Number(renderMs));
};

async function have(count: number): Promise<void> {
  let next = started.length;
  const one = async () => {
    while (next < count) {
      const name = `agent-${String(next++).padStart(4, '0')}`;
      const agent = await startFakeAgent({
        kubeconfigPath,
        namespace,
        name,
        client,
        script,
        slots: Number(slots),
        leaseSeconds: Number(leaseSeconds),
        renewEveryMs: Number(leaseSeconds) * 250,
      });
      started.push(agent);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

for await (const line of createInterface(process.stdin)) {
  const [command, value] = line.split(' ');
  if (command === 'agents') {
    await have(Number(value));
    console.log(JSON.stringify(started.length));
  }
  if (command === 'taken') {
    console.log(JSON.stringify(taken));
    taken = [];
  }
  if (command === 'begun') {
    console.log(JSON.stringify(started.reduce((sum, { begun }) => sum + begun.length, 0)));
  }
}
// Where they ran, everything is thrown away: nothing is released or removed one by one.
process.exit(0);
