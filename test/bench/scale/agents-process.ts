/**
 * Simulated agents for the benchmark of scale, in one process. Like KWOK's nodes, each has its own gRPC server,
 * GpuAgent and Lease. A render only takes a fixed time. Arguments: kubeconfig, namespace, slots per agent, length
 * of a render in ms, length of a Lease in seconds (it is renewed four times within that). Commands on standard
 * input, one per line: `agents N` makes N agents run; `taken` prints the jobs taken since the last `taken`, as
 * [name, Unix ms]; `begun` prints the number of attempts in all. Ends with its standard input.
 */
import { createInterface } from 'node:readline';
import { createKubeClient } from '@semblance/common/kube/index';
import { type FakeAgent, type Run, startFakeAgent } from '@semblance/testkit/operator/fake-agent';

const [kubeconfigPath = '', namespace = '', slots = '', renderMs = '', leaseSeconds = ''] =
  process.argv.slice(2);
/** Most agents that register at once. */
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
// Nothing is released or removed here, because the whole cluster is thrown away.
process.exit(0);
