import { afterEach, expect } from 'vitest';
import { VOICE_READY } from './agent-double.ts';
import { streamRig } from './stream-rig.ts';

/** Creates a gateway with the token of an installation. Each test leaves it in its initial state. */
export function tokenRig() {
  const rig = streamRig({ internalToken: 'token-of-this-installation' });

  afterEach(async () => {
    rig.agent.ready = VOICE_READY;
    rig.agent.mode = 'echo';
    rig.agent.onOpen = undefined;
    rig.live.verdicts.clear();
    rig.live.grant = { ...rig.live.grant, agentAddress: rig.agent.address, maxDurationSeconds: 600 };
    rig.gateway.control.failures.clear();
    await expect.poll(() => rig.gateway.gateway.live.size).toBe(0);
  });

  return rig;
}
