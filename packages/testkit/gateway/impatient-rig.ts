import { afterEach, expect } from 'vitest';
import { VOICE_READY } from './agent-double.ts';
import { streamRig } from './stream-rig.ts';

const pace = { ping: 100, silence: 800, idle: 900, stuck: 1_200 };

/** For the tests of what goes wrong: its gateway gives up soon. Put in order after each test. */
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

/** Sockets and timers of this process, clients and doubles included. */
export function resources(): number {
  return process.getActiveResourcesInfo().filter((name) => /TCP|Timeout|Immediate/.test(name)).length;
}
