/** Path, at the origin of the gateway, under which the sockets of sessions are. */
export const STREAMS_PATH = '/streams';

/** As it is logged, measured and documented: neither the session nor its token is in it. */
export const STREAMS_ROUTE = `${STREAMS_PATH}/{session_id}`;

/** Address of a session's socket. */
export function streamUrl(publicUrl: string, sessionId: string): string {
  return `${publicUrl.replace(/^http/, 'ws')}${STREAMS_PATH}/${sessionId}`;
}

/** The ids that sessions may have; anything else is asked of nobody. */
const SESSION_ID = /^[a-z0-9][a-z0-9-]{0,62}$/;
/** Longer than any token issued. */
const MAX_TOKEN_LENGTH = 512;

export interface StreamTarget {
  /** Undefined: not one that a session could have. */
  readonly sessionId: string | undefined;
  readonly token: string | undefined;
  /** The client asks for notices: text frames beside the first. */
  readonly notices: boolean;
}

/** The session and token that a request names, from its path and query; undefined: it is for no socket. */
export function streamTarget(url: string | undefined): StreamTarget | undefined {
  if (!url?.startsWith(`${STREAMS_PATH}/`)) return undefined;
  const split = url.indexOf('?');
  const path = split < 0 ? url : url.slice(0, split);
  const id = path.slice(STREAMS_PATH.length + 1);
  if (id.includes('/')) return undefined;
  const query = new URLSearchParams(split < 0 ? '' : url.slice(split + 1));
  const tokens = query.getAll('session_token');
  const [token] = tokens;
  const isOne = tokens.length === 1 && token !== '' && (token?.length ?? 0) <= MAX_TOKEN_LENGTH;
  return {
    sessionId: SESSION_ID.test(id) ? id : undefined,
    token: isOne ? token : undefined,
    notices: query.get('notices') === 'on',
  };
}
