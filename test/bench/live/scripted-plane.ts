/**
 * A control plane that grants every session and an agent that sends all media back, both of memory alone and in one
 * process: what is left to be measured is the gateway. Prints the control plane's port.
 */
import { tmpdir } from 'node:os';
import { DirectoryStore } from '@semblance/objects/directory-store';
import { AgentDouble } from '@semblance/testkit/gateway/agent-double';
import { ControlDouble } from '@semblance/testkit/gateway/control-double';

const agent = new AgentDouble();
agent.keep = false;
await agent.start();
const store = new DirectoryStore({
  folder: tmpdir(),
  signingKey: Buffer.alloc(32),
  publicUrl: 'http://bench',
});
const control = new ControlDouble(store);
control.live.grant = { ...control.live.grant, agentAddress: agent.address, reportIntervalMs: 2_000 };
await control.start();
console.log(control.port);
process.stdin.resume().on('end', () => process.exit(0));
