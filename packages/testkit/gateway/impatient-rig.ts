import { afterEach, expect } from 'vitest';
import { VOICE_READY } from './agent-double.ts';
import { streamRig } from './stream-rig.ts';

const pace = { ping: 100, silence: 800, idle: 900, stuck: 1_200 };

/** Creates a gateway with short time limits, for tests of faults. Each test leaves it in its initial state. */
export function impatientRig() {
  const rig = streamRig({ liveStreams: { pace, tickMs: 100, closeMs: 300 } });

  afterEach(async () => {
    rig.agent.ready = VOICE_READY;
    rig.agent.mode = 'echo';
    rig.agent.keep = true;
    rig.live.grant = { ...rig.live.grant, agentAddress: rig.agent.address };
    await expect.poll(() => rig.gateway.gateway.live.size).toBe(0);
  });

  return rig;
}

/** Returns the number of sockets and timers of this process, including those of clients and doubles. */
export function resources(): number {
  return process.getActiveResourcesInfo().filter((name) => /TCP|Timeout|Immediate/.test(name)).length;
}
