/** Raised when a graph uses something the converter does not know; it never guesses. */
export class ModelConversionError extends Error {
  override readonly name = 'ModelConversionError';
}
