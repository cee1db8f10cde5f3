import { signLink } from './links.ts';
import { checkKey, type SignedLinkOptions, type SignedPut } from './store.ts';

export interface LinkSignerOptions {
  readonly signingKey: Buffer;
  /** Origin at which clients reach the gateway. */
  readonly publicUrl: string;
  /** Origin at which agents reach the gateway. Default: `publicUrl`. */
  readonly internalUrl?: string | undefined;
}

/** The part of a store that signs links to objects that the gateway serves, for processes with the signing key. */
export abstract class LinkSigner {
  readonly #options: LinkSignerOptions;

  constructor(options: LinkSignerOptions) {
    this.#options = options;
  }

  /** Rejects with a RangeError if the key is no key of an object. */
  async signGet(key: string, options: SignedLinkOptions): Promise<string> {
    checkKey(key);
    const { filename, keyId } = options;
    const grant = {
      method: 'GET',
      key,
      expires: expiryOf(options),
      ...(filename !== undefined && { filename }),
      ...(keyId !== undefined && { keyId }),
    } as const;
    return this.#originFor(options) + signLink(this.#options.signingKey, grant);
  }

  /** Rejects with a RangeError if the key is no key of an object. */
  async signPut(
    key: string,
    options: SignedLinkOptions & { contentType: string; maxBytes: number },
  ): Promise<SignedPut> {
    checkKey(key);
    const { contentType, maxBytes } = options;
    const grant = { method: 'PUT', key, expires: expiryOf(options), contentType, maxBytes } as const;
    const link = signLink(this.#options.signingKey, grant);
    return { url: this.#originFor(options) + link, headers: { 'content-type': contentType } };
  }

  #originFor({ audience = 'public' }: SignedLinkOptions): string {
    const { publicUrl, internalUrl } = this.#options;
    return audience === 'internal' ? (internalUrl ?? publicUrl) : publicUrl;
  }
}

function expiryOf({ expiresInSeconds, signedAt = new Date() }: SignedLinkOptions): number {
  return Math.floor(signedAt.getTime() / 1000) + expiresInSeconds;
}
