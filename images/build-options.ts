export const TARGETS = ['semblance', 'semblance-agent', 'semblance-postgres', 'semblance-nats'] as const;
export type Target = (typeof TARGETS)[number];

export type BuildImagesOptions = {
  tag: string;
  targets?: readonly Target[];
  /** An image, or `debootstrap`. Default: the public image, or debootstrap if that cannot be fetched. */
  base?: string | undefined;
  /** Image with Node.js and npm. Default: the public one. */
  buildBase?: string | undefined;
  /** Folder with execution providers of onnxruntime for the agent's image; `cuda12` fetches them from NuGet. */
  providers?: string | undefined;
  /** Folder for the record of the build: what was made of what, and the parts of each image. */
  record?: string | undefined;
  /** PEM file of the key that signs the record. */
  signingKey?: string | undefined;
  /** Whether the build ignores layers of former builds. Default false. */
  cold?: boolean;
  signal?: AbortSignal;
  say: (line: string) => void;
  /** Called with every line that the builder prints. */
  onLine?: (line: string) => void;
};
