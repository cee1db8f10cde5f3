import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import { loadCharacters } from '@semblance/engine-builtin/live-swap/characters';
import { createPictureMedia } from '@semblance/gpu-agent/live/engines/sidecar/picture-media';
import {
  createSidecarEngine,
  type SidecarEngineOptions,
} from '@semblance/gpu-agent/live/engines/sidecar/sidecar-engine';
import { createSoundMedia } from '@semblance/gpu-agent/live/engines/sidecar/sound-flow';
import {
  JPEG_INFO,
  type ScriptedLive,
  SOUND_INFO,
  startScriptedLive,
} from '../engine-sidecar/scripted-live.ts';
import { startLiveRig } from './live-rig.ts';

/** Rate of the clients of these tests, in Hz. */
export const CLIENT_RATE = 48_000;
/** Times for a sidecar in this process: a standstill must not look like a hang. */
const TIMES = { healthEveryMs: 20, deadAfterMs: 60_000, hungMs: 60_000, endMs: 60_000, retryMs: 500 };

/** A scripted sidecar of live sessions, with an agent's live part that uses it. */
export async function startSidecarRig(
  capability: LiveCapability,
  script: ScriptedLive = {},
  change: Partial<Pick<SidecarEngineOptions, 'mostSlots' | 'times' | 'logger'>> & { root?: string } = {},
) {
  const dir = await mkdtemp(join(change.root ?? tmpdir(), 'semblance-live-'));
  const socket = join(dir, 'engine.sock');
  const info = { ...(capability === 'voice' ? SOUND_INFO : JPEG_INFO), ...script.info };
  const sidecar = await startScriptedLive(socket, { ...script, info });
  let lost = 0;
  let changed = 0;
  const engine = createSidecarEngine({
    capability,
    socket,
    mostSlots: change.mostSlots,
    media:
      capability === 'voice'
        ? createSoundMedia({ sampleRate: CLIENT_RATE, chunkFrames: 960 })
        : createPictureMedia(await loadCharacters()),
    logger: change.logger ?? silentLogger(),
    onChange: () => changed++,
    onCrash: () => lost++,
    times: { ...TIMES, ...change.times },
  });
  const rig = await startLiveRig({ engines: [engine], ...(change.logger && { logger: change.logger }) });
  return {
    dir,
    socket,
    sidecar,
    engine,
    rig,
    lost: () => lost,
    changes: () => changed,
    /** Opens a session, and returns it when its media can flow. */
    async open(settings: Record<string, string> = {}) {
      const id = await rig.claim({ capability, settings });
      const relay = rig.relay(id);
      const { firstFrame } = await relay.ready;
      return { id, relay, first: JSON.parse(firstFrame) as Record<string, unknown> };
    },
    async close() {
      await rig.close();
      await sidecar.kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export type SidecarRig = Awaited<ReturnType<typeof startSidecarRig>>;
