/** Path of the sockets of sessions at the gateway's origin. */
export const STREAMS_PATH = '/streams';

/** Form for logs, metrics and documents, without the session and its token. */
export const STREAMS_ROUTE = `${STREAMS_PATH}/{session_id}`;

/** Returns the address of a session's socket. */
export function streamUrl(publicUrl: string, sessionId: string): string {
  return `${publicUrl.replace(/^http/, 'ws')}${STREAMS_PATH}/${sessionId}`;
}

/** Possible ids of sessions; others are refused without a call. */
const SESSION_ID = /^[a-z0-9][a-z0-9-]{0,62}$/;
/** Longer than any issued token. */
const MAX_TOKEN_LENGTH = 512;

export interface StreamTarget {
  /** Undefined when it cannot be the id of a session. */
  readonly sessionId: string | undefined;
  readonly token: string | undefined;
  /** Whether the client asks for notices: text frames after the first. */
  readonly notices: boolean;
  /** Whether it may ask for changes, in text frames of its own. */
  readonly changes: boolean;
}

/**
 * Returns the session and token of a request; undefined when it is for no socket. The token is in the query or in
 * `Authorization: Bearer …`, which browsers cannot send; where both are, they must be the same.
 */
export function streamTarget(
  url: string | undefined,
  authorization?: string | undefined,
): StreamTarget | undefined {
  if (!url?.startsWith(`${STREAMS_PATH}/`)) return undefined;
  const split = url.indexOf('?');
  const path = split < 0 ? url : url.slice(0, split);
  const id = path.slice(STREAMS_PATH.length + 1);
  if (id.includes('/')) return undefined;
  const query = new URLSearchParams(split < 0 ? '' : url.slice(split + 1));
  const tokens = new Set(query.getAll('session_token'));
  if (authorization !== undefined) tokens.add(/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '');
  const [token] = tokens;
  const isOne = tokens.size === 1 && token !== '' && (token?.length ?? 0) <= MAX_TOKEN_LENGTH;
  return {
    sessionId: SESSION_ID.test(id) ? id : undefined,
    token: isOne ? token : undefined,
    notices: query.get('notices') === 'on',
    changes: query.get('changes') === 'on',
  };
}
