import type { ClaimRefusal, ConnectDecision, SessionEnd } from './session-table.ts';

/** The claim of a slot was refused. */
export class ClaimRefusedError extends Error {
  override readonly name = 'ClaimRefusedError';
  readonly code: ClaimRefusal | 'no-engine' | 'no-lease';
  readonly retryable: boolean;

  constructor(code: ClaimRefusedError['code'], message: string) {
    super(message);
    this.code = code;
    this.retryable = code === 'no-slot' || code === 'no-lease';
  }
}

/** A session cannot be changed now: there is none, it is not ready or has ended, or it is being changed. */
export class SessionNotReadyError extends Error {
  override readonly name = 'SessionNotReadyError';
  readonly code: 'not-ready' | 'busy';
  readonly retryable: boolean;

  constructor(code: SessionNotReadyError['code']) {
    super(code === 'busy' ? 'the change before is under way' : 'no such session is ready here');
    this.code = code;
    this.retryable = code === 'busy';
  }
}

const WHY = {
  unknown: 'no such session is held here',
  ended: 'the session has ended',
  'wrong-ticket': 'the ticket is not that of the session',
  taken: 'the session has or had its relay',
  'no-lease': 'the agent cannot renew its lease',
} as const satisfies Record<ConnectRefusedError['code'], string>;

/** A relay was refused. */
export class ConnectRefusedError extends Error {
  override readonly name = 'ConnectRefusedError';
  readonly code: Exclude<ConnectDecision, 'connected'> | 'no-lease';
  /** Set when the session has ended. */
  readonly end: SessionEnd | undefined;
  readonly retryable = false;

  constructor(code: ConnectRefusedError['code'], end?: SessionEnd) {
    super(WHY[code]);
    this.code = code;
    this.end = end;
  }
}
