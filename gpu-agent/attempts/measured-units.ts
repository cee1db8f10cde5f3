import type { Logger } from '@semblance/common/logging';
import { CAPABILITIES, type Capability } from '@semblance/engine-api/capabilities';
import type { RenderResult } from '@semblance/engine-api/engine';
import type { OpenMedia } from '@semblance/media/media';
import type { Size } from '@semblance/media/types';

/** Measures finished videos. Undefined on a machine without media tools. */
export type VideoMeter = OpenMedia['measure'];

/** Tells whether an output of the capability can be measured, and so charged, with or without a video meter. */
export function isMeasurable(capability: Capability, meter: VideoMeter | undefined): boolean {
  return CAPABILITIES[capability].unit === 'image' || meter !== undefined;
}

export interface Measured {
  /** Charged amount in thousandths of the unit. */
  readonly milliUnits: number;
  /** Of a video's frames, in pixels; it decides the rate. */
  readonly size?: Size;
}

/**
 * Measures what an output is charged by: one image, or the decoded seconds of a video and the size of its frames.
 * The engine may be a third-party program, so its own figure is compared but never charged.
 *
 * @throws RenderError for a video that cannot be decoded; Error for invalid units, or units that the capability
 * does not have
 */
export async function measureOutput(
  capability: Capability,
  { outputPath, units }: RenderResult,
  options: {
    readonly meter: VideoMeter | undefined;
    readonly signal: AbortSignal;
    readonly logger: Logger;
    /** Called when the engine stated another amount. */
    readonly onCorrection: () => void;
    /** Called with the decoded part of the length that the engine stated; above 1 when the video is longer. */
    readonly onMeasured?: (fraction: number) => void;
  },
): Promise<Measured> {
  const { unit } = CAPABILITIES[capability];
  const claimed = Math.round(units.quantity * 1000);
  if (units.unit !== unit || !Number.isSafeInteger(claimed) || claimed <= 0) {
    throw new Error('the engine reported unusable billing units');
  }
  let measured = 1000;
  let size: Size | undefined;
  if (unit === 'second') {
    if (!options.meter) throw new Error('there are no media tools to measure a video with');
    const onDecoded = (seconds: number) => options.onMeasured?.(seconds / units.quantity);
    ({ durationMs: measured, size } = await options.meter(outputPath, options.signal, onDecoded));
  }
  if (measured !== claimed) {
    options.onCorrection();
    options.logger.warn(
      { claimed: units.quantity, measured: measured / 1000, unit },
      'the engine and the measurement disagree about the output; the measurement is charged',
    );
  }
  return { milliUnits: measured, ...(size && { size }) };
}
