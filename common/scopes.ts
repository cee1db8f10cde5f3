/**
 * What an API key may do: submit jobs and what belongs to them, read, open and end live sessions, and manage keys, caps and
 * settings of its account.
 */
export const SCOPES = ['submit', 'read', 'sessions', 'account'] as const;
export type Scope = (typeof SCOPES)[number];

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
