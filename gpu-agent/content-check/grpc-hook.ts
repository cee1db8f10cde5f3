import { open, stat } from 'node:fs/promises';
import { credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { CHANNEL_OPTIONS } from '@semblance/common/grpc/client';
import {
  CheckRequest,
  type CheckResponse,
  CheckServiceClient,
  Phase,
  Verdict as Said,
} from '@semblance/proto/semblance/check/v1/check';
import { ALLOWED, type CheckSubject, type ContentCheck, ContentCheckError, type Verdict } from './check.ts';
import { type AskingOptions, rejection, verdictOf } from './service-answer.ts';

export interface GrpcHookOptions extends AskingOptions {
  /** `grpc://host:port`, or `grpcs://host:port` with TLS. */
  readonly url: string;
  /** Sent as a bearer token. */
  readonly token: string | undefined;
  /** Time limit of one try, from its beginning to the answer, in ms. */
  readonly timeoutMs: number;
}

const CHUNK = 256 * 1024;
/** Status codes of temporary faults. */
const AGAIN: readonly number[] = [
  status.UNAVAILABLE,
  status.RESOURCE_EXHAUSTED,
  status.ABORTED,
  status.INTERNAL,
  status.DEADLINE_EXCEEDED,
];

/** Asks a service of the owner over gRPC; docs/guide/owner/content-check.md has the contract. */
export function grpcHook(options: GrpcHookOptions): ContentCheck {
  const { protocol, host } = new URL(options.url);
  const secure = protocol === 'grpcs:' ? credentials.createSsl() : credentials.createInsecure();
  const client = new CheckServiceClient(host, secure, CHANNEL_OPTIONS);
  return {
    name: 'grpc',
    about: `texts and files, by the service at ${host}`,
    check: (subject, signal) => verdictOf(() => ask(client, options, subject, signal), options, signal),
    close: async () => client.close(),
  };
}

async function ask(
  client: CheckServiceClient,
  { token, timeoutMs }: GrpcHookOptions,
  subject: CheckSubject,
  signal: AbortSignal,
): Promise<Verdict> {
  const metadata = new Metadata();
  if (token) metadata.set('authorization', `Bearer ${token}`);
  const first = CheckRequest.fromPartial({ content: { $case: 'subject', value: await described(subject) } });
  signal.throwIfAborted();
  const answered = new AbortController();
  /** Ends the wait until a chunk is taken, because a service that has answered reads no more. */
  let goOn = () => {};
  const response = new Promise<CheckResponse>((resolve, reject) => {
    const call = client.check(metadata, { deadline: Date.now() + timeoutMs }, (error, response) => {
      answered.abort();
      goOn();
      if (error) reject(toCheckError(error));
      else resolve(response);
    });
    const cancel = () => call.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    answered.signal.addEventListener('abort', () => signal.removeEventListener('abort', cancel));
    const write = (message: CheckRequest) =>
      new Promise<void>((written) => {
        goOn = written;
        call.write(message, () => written());
      });
    sendAll(subject, first, write, answered.signal).then(
      () => call.end(),
      (error: unknown) => {
        reject(error);
        call.cancel();
      },
    );
  });
  const { verdict, reason } = await response;
  if (verdict === Said.VERDICT_ALLOW) return ALLOWED;
  if (verdict === Said.VERDICT_REJECT) return rejection(reason, subject);
  throw new ContentCheckError('its answer is no verdict');
}

async function described(subject: CheckSubject) {
  const files = subject.files.map(async ({ role, path, kind, contentType = '' }) => ({
    role,
    kind,
    contentType,
    size: BigInt((await stat(path)).size),
  }));
  return {
    phase: subject.phase === 'input' ? Phase.PHASE_INPUT : Phase.PHASE_OUTPUT,
    job: subject.jobName,
    capability: subject.capability,
    parameters: { ...subject.parameters },
    files: await Promise.all(files),
  };
}

async function sendAll(
  subject: CheckSubject,
  first: CheckRequest,
  write: (message: CheckRequest) => Promise<void>,
  answered: AbortSignal,
): Promise<void> {
  await write(first);
  for (const { role, path } of subject.files) {
    await using file = await open(path);
    for (;;) {
      if (answered.aborted) return;
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK);
      if (bytesRead === 0) break;
      const data = buffer.subarray(0, bytesRead);
      await write(CheckRequest.fromPartial({ content: { $case: 'chunk', value: { role, data } } }));
    }
  }
}

function toCheckError(error: ServiceError): Error {
  const text = `${status[error.code]}: ${error.details}`;
  return AGAIN.includes(error.code) ? new Error(text) : new ContentCheckError(text);
}
