/** A submit after its check, as the books take it. */
export interface Submission {
  readonly accountId: string;
  /** API key of the submit; links in a webhook end with it. Default: none. */
  readonly keyId?: string | undefined;
  readonly capability: string;
  /** Input role → file key. */
  readonly inputs: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
  /** Options of the engine, as text. */
  readonly engineOptions: Readonly<Record<string, string>>;
  readonly callbackUrl: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** Shown in the record again. Default: none. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Seconds from the end of the job after which its output is deleted. Default: as the setting says. */
  readonly expiresInSeconds?: number | undefined;
  /** Trace that the job's later life continues. */
  readonly traceparent?: string | undefined;
}
