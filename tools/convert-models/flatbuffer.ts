/**
 * Reads tables of a FlatBuffer (https://flatbuffers.dev/internals), as far as a TensorFlow Lite model needs. A
 * field is given by its number in the schema; a field that is absent has its default value.
 * @throws RangeError when the bytes are too short for their content
 */
export class FlatTable {
  readonly #view: DataView;
  readonly #at: number;

  private constructor(view: DataView, at: number) {
    this.#view = view;
    this.#at = at;
  }

  /** Returns the root table of a buffer with this four-letter identifier. @throws Error when it has another one */
  static root(bytes: Uint8Array, identifier: string): FlatTable {
    const found = Buffer.from(bytes.subarray(4, 8)).toString('latin1');
    if (found !== identifier) throw new Error(`not a FlatBuffer of kind ${identifier}`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return new FlatTable(view, view.getUint32(0, true));
  }

  int8(field: number, missing = 0): number {
    const at = this.#field(field);
    return at === 0 ? missing : this.#view.getInt8(at);
  }

  int32(field: number, missing = 0): number {
    const at = this.#field(field);
    return at === 0 ? missing : this.#view.getInt32(at, true);
  }

  table(field: number): FlatTable | undefined {
    const at = this.#field(field);
    return at === 0 ? undefined : this.#tableAt(at);
  }

  tables(field: number): FlatTable[] {
    const { start, length } = this.#vector(field);
    return Array.from({ length }, (_, i) => this.#tableAt(start + 4 * i));
  }

  string(field: number): string {
    return Buffer.from(this.bytes(field)).toString('utf8');
  }

  int32s(field: number): number[] {
    return this.#numbers(field, 4, (at) => this.#view.getInt32(at, true));
  }

  uint16s(field: number): number[] {
    return this.#numbers(field, 2, (at) => this.#view.getUint16(at, true));
  }

  /** Returns a vector of bytes, which shares the buffer's memory. */
  bytes(field: number): Uint8Array {
    const { start, length } = this.#vector(field);
    if (start + length > this.#view.byteLength) throw new RangeError('the buffer ends inside a vector');
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset + start, length);
  }

  /** Returns the offset of a field's value, in bytes; 0 when the field is absent. */
  #field(field: number): number {
    const table = this.#at - this.#view.getInt32(this.#at, true);
    const entry = 4 + 2 * field;
    if (entry >= this.#view.getUint16(table, true)) return 0;
    const offset = this.#view.getUint16(table + entry, true);
    return offset === 0 ? 0 : this.#at + offset;
  }

  #tableAt(at: number): FlatTable {
    return new FlatTable(this.#view, at + this.#view.getUint32(at, true));
  }

  #vector(field: number): { start: number; length: number } {
    const at = this.#field(field);
    if (at === 0) return { start: 0, length: 0 };
    const vector = at + this.#view.getUint32(at, true);
    return { start: vector + 4, length: this.#view.getUint32(vector, true) };
  }

  #numbers(field: number, size: number, read: (at: number) => number): number[] {
    const { start, length } = this.#vector(field);
    if (start + length * size > this.#view.byteLength)
      throw new RangeError('the buffer ends inside a vector');
    return Array.from({ length }, (_, i) => read(start + i * size));
  }
}
