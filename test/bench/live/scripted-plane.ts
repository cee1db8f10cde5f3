/**
 * A control plane that grants every session, and an agent that sends all media back. Both work from memory in this
 * one process, so that only the gateway is measured. Prints the control plane's port.
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
