/** A graph uses something that the converter does not support. The converter never guesses. */
export class ModelConversionError extends Error {
  override readonly name = 'ModelConversionError';
}
