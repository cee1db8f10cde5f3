import type { Logger } from '@semblance/common/logging';
import { CAPABILITIES, type Capability } from '@semblance/engine-api/capabilities';
import type { RenderResult } from '@semblance/engine-api/engine';
import type { OpenMedia } from '@semblance/media/media';

/** Measures finished videos; absent on a machine without media tools. */
export type VideoMeter = OpenMedia['measure'];

/** Tells whether what a capability makes can be measured, and so charged, with or without a meter of videos. */
export function isMeasurable(capability: Capability, meter: VideoMeter | undefined): boolean {
  return CAPABILITIES[capability].unit === 'image' || meter !== undefined;
}

/**
 * Thousandths of the unit that an output is charged by: one image for a picture, the seconds of a video as they are
 * decoded from its file. What the engine said is compared with that, and never charged: it may be a program of others.
 *
 * @throws RenderError for a video that cannot be decoded; Error for units that the capability has not, or that are none
 */
export async function measuredMilliUnits(
  capability: Capability,
  { outputPath, units }: RenderResult,
  options: {
    readonly meter: VideoMeter | undefined;
    readonly signal: AbortSignal;
    readonly logger: Logger;
    /** Is told when the engine said something else. */
    readonly onCorrection: () => void;
    /** Is told which part of the length that the engine said was decoded; above 1 where it said too little. */
    readonly onMeasured?: (fraction: number) => void;
  },
): Promise<number> {
  const { unit } = CAPABILITIES[capability];
  const claimed = Math.round(units.quantity * 1000);
  if (units.unit !== unit || !Number.isSafeInteger(claimed) || claimed <= 0) {
    throw new Error('the engine reported unusable billing units');
  }
  let measured = 1000;
  if (unit === 'second') {
    if (!options.meter) throw new Error('there are no media tools to measure a video with');
    const onDecoded = (seconds: number) => options.onMeasured?.(seconds / units.quantity);
    measured = (await options.meter(outputPath, options.signal, onDecoded)).durationMs;
  }
  if (measured !== claimed) {
    options.onCorrection();
    options.logger.warn(
      { claimed: units.quantity, measured: measured / 1000, unit },
      'the engine and the measurement disagree about the output; the measurement is charged',
    );
  }
  return measured;
}
