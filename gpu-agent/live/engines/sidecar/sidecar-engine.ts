import type { Logger } from '@semblance/common/logging';
import type {
  LiveCapability,
  LiveEngine,
  LiveMedia,
  OpenLiveOptions,
} from '@semblance/engine-api/live-engine';
import { PICTURE_LIMITS } from '@semblance/engine-builtin/live-swap/types';
import {
  createLiveSidecar,
  type LiveSidecar,
  type LiveSidecarOptions,
} from '@semblance/engine-sidecar/live/live-sidecar';

/** How one kind of media flows through a sidecar. */
export interface SidecarMedia {
  /** As in LiveEngine. */
  check(settings: Readonly<Record<string, string>>): void;
  open(sidecar: LiveSidecar, options: OpenLiveOptions): Promise<LiveMedia>;
}

export interface SidecarEngineOptions {
  readonly capability: LiveCapability;
  readonly socket: string;
  /** Most sessions at once; undefined: as many as the sidecar says. */
  readonly mostSlots: number | undefined;
  readonly media: SidecarMedia;
  readonly logger: Logger;
  /** Called when slots or warmth changed. */
  readonly onChange: () => void;
  /** Called when a sidecar that was warm is lost. */
  readonly onCrash: () => void;
  readonly times?: LiveSidecarOptions['times'];
}

/**
 * Creates an engine of live sessions that a program of the owner's carries. While the program is away the engine offers
 * nothing, and it is waited for.
 */
export function createSidecarEngine(options: SidecarEngineOptions): LiveEngine {
  const { capability, socket, mostSlots, media, logger, onChange, onCrash, times } = options;
  const sidecar = createLiveSidecar({
    socket,
    capability,
    most: PICTURE_LIMITS,
    logger,
    onChange,
    onLost: onCrash,
    ...(times && { times }),
  });
  return {
    capability,
    delivery: capability === 'voice' ? 'every' : 'newest',
    get slots() {
      return Math.min(mostSlots ?? sidecar.slots, sidecar.slots);
    },
    get warming() {
      return sidecar.info === undefined;
    },
    get engine() {
      return sidecar.info && `${sidecar.info.name} ${sidecar.info.version}`;
    },
    warmUp: (signal) => sidecar.warmUp(signal),
    check: (settings) => media.check(settings),
    open: (given) => media.open(sidecar, given),
    close: () => sidecar.close(),
  };
}
