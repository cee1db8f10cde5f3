import type { EngineCapability, PreviewMoment } from './engine.ts';
import type { RenderOptions } from './option.ts';

/** One render as it is sent to the engine process. */
export interface RenderWork {
  readonly capability: EngineCapability['capability'];
  readonly inputs: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
  readonly options?: RenderOptions;
  readonly outputDir: string;
}

/** One inspection as it is sent to the engine process. */
export type InspectWork = Omit<RenderWork, 'options' | 'outputDir'> & {
  readonly people?: true;
  readonly preview?: PreviewMoment;
};
