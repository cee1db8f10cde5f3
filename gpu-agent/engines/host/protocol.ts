import type {
  EngineCapability,
  RenderErrorCode,
  RenderResult,
  UnavailableCapability,
} from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import type { EngineSource } from '../registry.ts';

/** First argument of an engine process, as JSON. */
export interface EngineSetup {
  readonly source: EngineSource;
  readonly options: FactoryOptions;
}

/** Statement of a warm engine about itself. */
export interface EngineInfo {
  readonly name: string;
  readonly version: string;
  readonly capabilities: readonly EngineCapability[];
  readonly unavailable?: readonly UnavailableCapability[];
  /** Renders that one process does at once; undefined: as many as it is given. */
  readonly concurrency?: number;
  /** Memory on the card that it holds with its models, in MiB, as it states. */
  readonly vramMib?: number;
  /** Whether it looks at pictures before a render. */
  readonly inspects?: boolean;
  /** Whether its inspections find people. */
  readonly findsPeople?: boolean;
  /** Whether its inspections answer previews of swaps. */
  readonly previewsSwaps?: boolean;
}

/** Messages from the agent to an engine process. */
export type ToEngine =
  | { readonly type: 'render'; readonly id: number; readonly work: RenderWork }
  | { readonly type: 'inspect'; readonly id: number; readonly work: InspectWork }
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'close' };

/** Messages from an engine process to the agent. */
export type FromEngine =
  | { readonly type: 'ready'; readonly engine: EngineInfo; readonly warmUpMs: number }
  | { readonly type: 'unusable'; readonly message: string }
  | {
      readonly type: 'progress';
      readonly id: number;
      readonly fraction: number;
      readonly stage: string;
      readonly secondsLeft?: number;
    }
  | { readonly type: 'result'; readonly id: number; readonly result: RenderResult | Findings }
  | {
      readonly type: 'error';
      readonly id: number;
      /** Undefined for an error that is neither a RenderError nor an EngineInterruptedError. */
      readonly code?: RenderErrorCode | 'engine_interrupted';
      readonly message: string;
      /** Of a RenderError. */
      readonly findings?: Findings;
    }
  /** The engine can render no more, and its process ends next. */
  | { readonly type: 'ended'; readonly reason: string };
