/**
 * Timestamp of all files in all layers, in seconds since 1970, so that equal content gives equal layers at any
 * time.
 */
export const BUILT_AT = 1_735_689_600;
/** Longest wait for a base, in ms. */
export const PULL_MS = 60_000;

export type BuildRequest = {
  image: string;
  context: string;
  containerfile: string;
  target?: string;
  args?: Record<string, string>;
  /** Files for `RUN --mount=type=secret,id=…`, by id. */
  secrets?: Record<string, string>;
};

/** Builds, stores and exports images. Its opener must close it; until then nobody else builds in its folder. */
export interface Builder extends AsyncDisposable {
  readonly name: 'docker' | 'buildah';
  build(request: BuildRequest, onLine?: (line: string) => void): Promise<void>;
  /** Returns whether the image is here or can be fetched. */
  obtainable(image: string): Promise<boolean>;
  size(image: string): Promise<number>;
  /** Digest of the image's configuration, by which a node knows the image. */
  id(image: string): Promise<string>;
  /** Digest by which a registry gave the image; undefined when it came from none. */
  baseDigest(image: string): Promise<string | undefined>;
  readFile(image: string, path: string): Promise<string>;
  /** Digests of the image's layers, uncompressed. */
  layers(image: string): Promise<string[]>;
  /** Writes images with their names and layers into archives that `docker load` and `ctr images import` read. */
  save(images: readonly string[], folder: string): Promise<string[]>;
}

export type BuilderContext = {
  env: NodeJS.ProcessEnv;
  folder: string;
  signal: AbortSignal | undefined;
  cold: boolean;
};

/** A builder that does not lock its folder; the caller holds the lock. */
export type UnlockedBuilder = Omit<Builder, typeof Symbol.asyncDispose> & { close(): Promise<void> };

/** Returns a request as command-line arguments, which are the same for both builders. */
export function requestArgs({ target, args = {}, secrets = {} }: BuildRequest): string[] {
  return [
    ...(target ? ['--target', target] : []),
    ...Object.entries(args).map(([name, value]) => `--build-arg=${name}=${value}`),
    ...Object.entries(secrets).map(([id, file]) => `--secret=id=${id},src=${file}`),
  ];
}
