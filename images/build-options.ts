export const TARGETS = ['semblance', 'semblance-agent', 'semblance-postgres', 'semblance-nats'] as const;
export type Target = (typeof TARGETS)[number];

export type BuildImagesOptions = {
  tag: string;
  targets?: readonly Target[];
  /** An image, or `debootstrap`; default: the public one, or debootstrap where it cannot be fetched. */
  base?: string | undefined;
  /** Has Node.js and npm; default: the public one. */
  buildBase?: string | undefined;
  /** Folder of execution providers of onnxruntime that the agent's image gets; `cuda12`: fetched from NuGet. */
  providers?: string | undefined;
  /** Takes over nothing from former builds. */
  cold?: boolean;
  signal?: AbortSignal;
  say: (line: string) => void;
  /** Every line of the builder. */
  onLine?: (line: string) => void;
};
