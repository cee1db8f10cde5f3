/**
 * A control plane that grants every session and an agent that sends all media back, both of memory alone and in one
 * process: what is left to be measured is the gateway. Prints the control plane's port.
 */
import { tmpdir } from 'node:os';
import { DirectoryStore } from '#common/objects/directory-store.ts';
import { AgentDouble } from '../../../gateway/testing/agent-double.ts';
import { ControlDouble } from '../../../gateway/testing/control-double.ts';

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
