/**
 * Scripted agents for the benchmark of allocations, in one separate process. They give a slot to every caller, free
 * or not, and keep a ledger that shows whether the operator gave a slot twice. Arguments: kubeconfig, namespace,
 * number of agents, slots per agent. Commands on standard input, one per line: `hold MS` makes each session end
 * after that time (0: never); `verdict` prints the finding of the ledger. Ends with its standard input.
 */
import { createInterface } from 'node:readline';
import { type FakeAgent, startFakeAgent } from '@semblance/testkit/operator/fake-agent';
import { doubles, type SlotLedger } from '@semblance/testkit/operator/fake-live';

const [kubeconfigPath = '', namespace = '', agents = '', slots = ''] = process.argv.slice(2);
const slotLedger: SlotLedger = { entries: [] };
let holdMs = 0;

const started: FakeAgent[] = [];
for (let i = 0; i < Number(agents); i++) {
  const agent = await startFakeAgent({
    kubeconfigPath,
    namespace,
    name: `agent-${i}`,
    slotLedger,
    lax: true,
    live: { voice: Number(slots) },
    script() {},
  });
  agent.live.beforeAnswer = async () => {
    const session = agent.live.claims.pop()?.sessionId;
    if (holdMs > 0 && session) setTimeout(() => agent.live.end(session), holdMs);
  };
  started.push(agent);
}
console.log('started');

for await (const line of createInterface(process.stdin)) {
  const [command, value] = line.split(' ');
  if (command === 'hold') holdMs = Number(value);
  if (command === 'verdict') {
    const most = Math.max(...started.map(({ live }) => live.most.get('voice') ?? 0));
    console.log(
      JSON.stringify({ given: slotLedger.entries.length, twice: doubles(slotLedger).length, most }),
    );
  }
}
for (const agent of started) await agent.kill();
process.exit(0);
