import { openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';
// undici's own `fetch` and forms, because Node's accept no dispatcher of another version.
import { Agent, type Dispatcher, FormData, fetch, type Response } from 'undici';
import { z } from 'zod';
import { ALLOWED, type CheckSubject, type ContentCheck, ContentCheckError, type Verdict } from './check.ts';
import { type AskingOptions, rejection, verdictOf } from './service-answer.ts';

export interface HttpHookOptions extends AskingOptions {
  readonly url: string;
  /** Sent as a bearer token. */
  readonly token: string | undefined;
  /** Time limit of one try, from its beginning to the end of the answer, in ms. */
  readonly timeoutMs: number;
}

/** Longest answer, in bytes: a verdict is short, and a service that sends more is no content check. */
const ANSWER_MOST = 64 * 1024;

const Answer = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.literal('allow') }),
  z.object({ verdict: z.literal('reject'), reason: z.string().optional() }),
]);

/** Asks a service of the owner over HTTP; docs/guide/owner/content-check.md has the contract. */
export function httpHook(options: HttpHookOptions): ContentCheck {
  const dispatcher = new Agent({
    // In undici 8.12 a request aborted on an HTTP/2 connection can make its client loop for ever.
    allowH2: false,
    // The time limit of a try applies instead; undici's own limits would end each try after five minutes.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return {
    name: 'http',
    about: `texts and files, by the service at ${new URL(options.url).host}`,
    check: (subject, signal) => verdictOf(() => ask(dispatcher, options, subject, signal), options, signal),
    close: () => dispatcher.destroy(),
  };
}

/** @throws ContentCheckError for an answer that another try would not change; otherwise another error */
async function ask(
  dispatcher: Dispatcher,
  options: HttpHookOptions,
  subject: CheckSubject,
  signal: AbortSignal,
): Promise<Verdict> {
  const response = await fetch(options.url, {
    dispatcher,
    method: 'POST',
    body: await formOf(subject),
    headers: {
      accept: 'application/json',
      ...(options.token ? { authorization: `Bearer ${options.token}` } : {}),
    },
    // The media must go to the owner's address only.
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(options.timeoutMs)]),
  });
  const { status } = response;
  if (status !== 200) {
    // A proxy's error page says nothing about the job.
    await response.body?.cancel().catch(() => {});
    const answered = `it answered ${status}`;
    throw status === 429 || status >= 500 ? new Error(answered) : new ContentCheckError(answered);
  }
  const answer = Answer.safeParse(jsonOf(await textOf(response)));
  if (!answer.success) throw new ContentCheckError('its answer is no verdict');
  if (answer.data.verdict === 'allow') return ALLOWED;
  return rejection(answer.data.reason, subject);
}

/** Builds the form. Files are read only while they are sent. */
async function formOf(subject: CheckSubject): Promise<FormData> {
  const { phase, jobName, capability, parameters } = subject;
  const form = new FormData();
  const files = await Promise.all(
    subject.files.map(async ({ role, path, kind, contentType }) => {
      const { size } = await stat(path);
      return {
        role,
        path,
        about: { role, kind, size, ...(contentType ? { content_type: contentType } : {}) },
      };
    }),
  );
  const request = {
    version: 1,
    phase,
    job: jobName,
    capability,
    parameters,
    files: files.map(({ about }) => about),
  };
  form.append('request', new Blob([JSON.stringify(request)], { type: 'application/json' }));
  for (const { role, path, about } of files) {
    const type = about.content_type ?? 'application/octet-stream';
    form.append(role, await openAsBlob(path, { type }), role);
  }
  return form;
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > ANSWER_MOST) throw new ContentCheckError('its answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
