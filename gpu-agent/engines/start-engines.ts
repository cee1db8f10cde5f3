import type { Logger } from '@semblance/common/logging';
import { OWNER_OPTIONS_SETTING } from '@semblance/common/owner-options';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { findIsolation, type Isolation } from '@semblance/media/isolation';
import { createMedia, findMediaTools } from '@semblance/media/media';
import { isMeasurable, type VideoMeter } from '../attempts/measured-units.ts';
import type { VideoReader } from '../attempts/preview.ts';
import { type Cards, type CardsOptions, createCards } from '../cards/cards.ts';
import type { AgentSettings } from '../settings.ts';
import { createEnginePools } from './engine-pools.ts';
import { createEngineSet, type EngineSet } from './engine-set.ts';
import { type EngineSource, engineSource, sidecarSource } from './registry.ts';

export interface StartedEngines {
  readonly engines: EngineSet;
  /** Resolves when every engine of this agent's processes is warm, or has failed to warm up. */
  readonly tried: Promise<unknown>;
  /** Resolves when the first engine is warm. */
  firstReady(): Promise<unknown>;
  /** The walls around decoders. */
  readonly isolation: Isolation;
  /** Measures videos; undefined without ffmpeg. */
  readonly measure: VideoMeter | undefined;
  /** Reads videos; undefined without ffmpeg. */
  readonly media: VideoReader | undefined;
  /** The memory of the cards; undefined when nothing tells it. */
  readonly cards: Pick<Cards, 'statement'> | undefined;
}

export interface StartEnginesOptions {
  readonly settings: AgentSettings;
  readonly logger: Logger;
  /** Default: those named in the settings. */
  readonly engines?: readonly EngineSource[] | undefined;
  readonly cancelGraceMs?: number | undefined;
  /** How the memory of the cards is read. Default: by nvidia-smi, where an engine uses a GPU and it is found. */
  readonly cards?: Pick<CardsOptions, 'program' | 'everyMs'> | undefined;
  /** Existing private directory. */
  readonly tempDir: string;
  /** Receives a function that ends each started part. */
  readonly started: (() => Promise<void>)[];
  readonly onChange: () => void;
  readonly onCrash: (engine: string) => void;
}

/**
 * Starts the engine processes and the meter of videos.
 * @throws IsolationError when a wall around decoders does not stand, and all are required
 */
export async function startEngines(options: StartEnginesOptions): Promise<StartedEngines> {
  const { settings, logger } = options;
  const isolation = await findIsolation();
  for (const { wall, why } of isolation.missing) logger.warn({ wall }, `decoders run without a wall: ${why}`);
  const tools = await findMediaTools();
  const media = tools.available ? createMedia({ tools, threads: 1, nice: settings.renderNice }) : undefined;
  if (media) options.started.push(() => media.close());
  if (!tools.available) logger.warn(`offering no capability that makes videos: ${tools.reason}`);

  const sources = options.engines ?? [
    ...settings.sidecars.map(sidecarSource),
    ...settings.engines.map((name) => ({
      ...engineSource(name, settings.engineSettings),
      ...(name === 'onnx' ? onCards(settings) : {}),
    })),
  ];
  const cards = openCards(options);
  const told = new Set<string>();
  /** Logs once why a capability is not offered with the owner's options. */
  const tellFaults = () => {
    for (const { capability, message } of engines.unavailable) {
      if (!message.startsWith(OWNER_OPTIONS_SETTING) || told.has(message)) continue;
      told.add(message);
      logger.error({ capability }, `not offered: ${message}`);
    }
  };
  const pools = createEnginePools({
    sources,
    slots: settings.slots,
    tempDir: options.tempDir,
    nice: settings.renderNice,
    cancelGraceMs: options.cancelGraceMs,
    memory: cards,
    logger,
    onChange() {
      tellFaults();
      options.onChange();
    },
    onCrash: options.onCrash,
  });
  const engines = createEngineSet({
    pools,
    slots: settings.slots,
    ownerOptions: settings.ownerOptions,
    // Work that cannot be measured cannot be charged.
    obstacle: (capability) =>
      tools.available || isMeasurable(capability, undefined) ? undefined : tools.reason,
  });
  options.started.push(() => engines.close());
  return {
    engines,
    // An engine that is a program of its own may stay away for long.
    tried: Promise.all(pools.filter((_, i) => !sources[i]?.remote).map((pool) => pool.tried)),
    firstReady: () => Promise.any(pools.map((pool) => pool.firstReady())),
    isolation,
    measure: media?.measure,
    media,
    cards,
  };
}

function onCards({ deviceFiles, usesCards, vramCeilingMib }: AgentSettings): Partial<EngineSource> {
  return { devices: deviceFiles, usesCards, ...(vramCeilingMib === undefined ? {} : { vramCeilingMib }) };
}

function openCards(options: StartEnginesOptions): Cards | undefined {
  const { settings, logger, started, onChange } = options;
  if (settings.vramCeilingMib !== undefined && !settings.usesCards)
    logger.error('SEMBLANCE_ONNX_VRAM_CEILING_MIB has no effect: the engine onnx uses no GPU');
  // A sidecar may use a card that this container shows too.
  if (!options.cards && !settings.usesCards && settings.sidecars.length === 0) return undefined;
  const { everyMs, program = findOnPath('nvidia-smi') } = options.cards ?? {};
  if (program === undefined) {
    const why = 'the memory of the cards is not known: nvidia-smi is not on the PATH';
    if (settings.vramCeilingMib === undefined) {
      if (settings.usesCards) logger.warn(why);
    } else logger.error(`${why}, and the ceiling has no effect`);
    return undefined;
  }
  const cards = createCards({ program, logger, onChange, ...(everyMs === undefined ? {} : { everyMs }) });
  started.push(() => cards.close());
  return cards;
}
