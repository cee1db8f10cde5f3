/** All files of all layers carry this time, so that the same content gives the same layers whenever it is built. */
export const BUILT_AT = 1_735_689_600;
/** How long a base is waited for. */
export const PULL_MS = 60_000;

export type BuildRequest = {
  image: string;
  context: string;
  containerfile: string;
  target?: string;
  args?: Record<string, string>;
  /** File that `RUN --mount=type=secret,id=…` sees, by id. */
  secrets?: Record<string, string>;
};

/** What builds, keeps and gives out images. Whoever opened it closes it: nobody else builds in its folder until then. */
export interface Builder extends AsyncDisposable {
  readonly name: 'docker' | 'buildah';
  build(request: BuildRequest, onLine?: (line: string) => void): Promise<void>;
  /** Whether the image is here or can be fetched. */
  obtainable(image: string): Promise<boolean>;
  size(image: string): Promise<number>;
  /** Digests of the image's layers, uncompressed. */
  layers(image: string): Promise<string[]>;
  /** Writes images with their names and layers into archives, as `docker load` and `ctr images import` read them. */
  save(images: readonly string[], folder: string): Promise<string[]>;
}

export type BuilderContext = {
  env: NodeJS.ProcessEnv;
  folder: string;
  signal: AbortSignal | undefined;
  cold: boolean;
};

/** A builder in a folder that is locked for it. */
export type UnlockedBuilder = Omit<Builder, typeof Symbol.asyncDispose> & { close(): Promise<void> };

/** What a request says in the way in which both builders want to be told. */
export function requestArgs({ target, args = {}, secrets = {} }: BuildRequest): string[] {
  return [
    ...(target ? ['--target', target] : []),
    ...Object.entries(args).map(([name, value]) => `--build-arg=${name}=${value}`),
    ...Object.entries(secrets).map(([id, file]) => `--secret=id=${id},src=${file}`),
  ];
}
