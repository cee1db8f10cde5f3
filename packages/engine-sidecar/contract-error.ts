/** An engine broke the contract; the message names the broken rule. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
  readonly code = 'contract_broken';
  readonly retryable = false;
}

/** @throws ContractError */
export function broken(what: string): never {
  throw new ContractError(`the sidecar does not keep to the contract: ${what}`);
}

/** Returns the beginning of a text of the sidecar, for a message. */
export const quoted = (text: string) => JSON.stringify(text.slice(0, 80));
